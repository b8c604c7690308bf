"""What the boards on etcd and on ZooKeeper do alike: both keep keys with versions, and write if conditions hold."""
