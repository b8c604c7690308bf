"""Octavia's drivers, with a board in the place of TaskFlow's: its options stay as they are."""

from octavia.controller.worker.v2.taskflow_jobboard_driver import CONF, JobboardTaskFlowDriver
from taskflow.jobs import backends


class RedisTaskFlowDriver(JobboardTaskFlowDriver):
    def __init__(self, persistence_driver):
        self.persistence_driver = persistence_driver

    def job_board(self, persistence):
        given = CONF.task_flow
        host, *others = given.jobboard_backend_hosts
        conf = {"board": "jobboard+redis", "namespace": given.jobboard_backend_namespace, "host": host}
        conf |= {"port": given.jobboard_backend_port, "db": given.jobboard_redis_backend_db}
        conf |= {"username": given.jobboard_backend_username, "password": given.jobboard_backend_password}
        conf |= given.jobboard_redis_backend_ssl_options
        if given.jobboard_redis_sentinel:
            conf |= {"sentinel": given.jobboard_redis_sentinel}
            conf |= {"sentinel_fallbacks": [f"{other}:{given.jobboard_backend_port}" for other in others]}
        return backends.backend("octavia", conf, persistence=persistence)


class EtcdTaskFlowDriver(JobboardTaskFlowDriver):
    def __init__(self, persistence_driver):
        self.persistence_driver = persistence_driver

    def job_board(self, persistence):
        given = CONF.task_flow
        conf = {"board": "jobboard+etcd", "path": given.jobboard_backend_namespace}
        conf |= {"host": given.jobboard_backend_hosts[0], "port": given.jobboard_backend_port}
        conf |= {"ttl": given.jobboard_expiration_time, "timeout": given.jobboard_etcd_timeout}
        tls = dict(given.jobboard_etcd_ssl_options)
        conf |= {"protocol": "https" if tls.pop("use_ssl") else "http", **tls}
        return backends.backend("octavia", conf, persistence=persistence)


class ZookeeperTaskFlowDriver(JobboardTaskFlowDriver):
    def __init__(self, persistence_driver):
        self.persistence_driver = persistence_driver

    def job_board(self, persistence):
        given = CONF.task_flow
        hosts = [f"{host}:{given.jobboard_backend_port}" for host in given.jobboard_backend_hosts]
        conf = {"board": "jobboard+zookeeper", "hosts": hosts, "path": f"/{given.jobboard_backend_namespace}"}
        conf |= given.jobboard_zookeeper_ssl_options
        return backends.backend("octavia", conf, persistence=persistence)
