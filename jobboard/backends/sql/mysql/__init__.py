"""Boards in MariaDB and MySQL, by PyMySQL."""

from jobboard.backends.sql.mysql.backend import MysqlBackend

__all__ = ["MysqlBackend"]
