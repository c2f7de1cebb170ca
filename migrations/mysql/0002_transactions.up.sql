-- +goose Up
-- LockTx: the rows that a caller's transaction locks. They are never removed.
CREATE TABLE IF NOT EXISTS rowlock_tx (
  name VARBINARY(255) NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB;

-- MarkRun and Once: a run of a key that took effect, written in the transaction of its effects.
CREATE TABLE IF NOT EXISTS rowlock_run (
  name  VARBINARY(255)  NOT NULL,
  run   VARBINARY(255)  NOT NULL,
  token BIGINT UNSIGNED NOT NULL,
  at    DATETIME(6)     NOT NULL,
  PRIMARY KEY (name, run)
) ENGINE=InnoDB;
