"""The tables as MariaDB and MySQL have them, which have no partial indexes."""

from __future__ import annotations

from sqlalchemy import Column, Computed, Index, MetaData, Table, text
from sqlalchemy.dialects import mysql

from jobboard.backends.sql import schema
from jobboard.backends.sql.dialect import Dialect
from jobboard.backends.sql.migration import statements_to_upgrade


def _tables() -> list[Table]:
    copies = MetaData()
    tables = [table.to_metadata(copies) for table in schema.metadata.sorted_tables]
    _free_keys_of_the_gone(copies.tables[schema.jobs.name])
    return tables


def _free_keys_of_the_gone(jobs: Table) -> None:
    """A key is unique among live jobs: as long as a job is live, a column repeats it, and NULLs don't collide."""
    jobs.indexes = {index for index in jobs.indexes if index.name != "jobboard_key"}
    alive = Computed(text(f"CASE WHEN state < {schema.COMPLETE} THEN `key` END"), persisted=True)
    jobs.append_column(Column("live_key", mysql.VARCHAR(255), alive))
    Index("jobboard_key", jobs.c.board, jobs.c.name, jobs.c.live_key, unique=True)


def statements_of_mysql(version: int, dialect: Dialect, is_mariadb: bool) -> list[str]:
    """Return what brings the tables from a version to ours.

    Names differ that differ in a blank at their end, in case or in an accent: only collations without padding do that.
    """
    collation = "utf8mb4_nopad_bin" if is_mariadb else "utf8mb4_0900_bin"
    # Where the server's default is an older format, an index can't hold a name.
    options = f" ENGINE=InnoDB ROW_FORMAT=DYNAMIC DEFAULT CHARSET=utf8mb4 COLLATE={collation}"
    return [
        statement + options if statement.lstrip().startswith("CREATE TABLE") else statement
        for statement in statements_to_upgrade(_tables(), version, dialect)
    ]
