-- +goose Up
-- One row a key. The server writes all times, in UTC. A key is free when expires_at has passed.
-- The guard index is what a guarded transaction locks; renewals never touch it.
-- For keys that are shared: phase is the hold of the phase in which readers or slots have the key.
-- line is the programs that wait for the key, 37 bytes each, 64 at most: hold ID (16), mode and 0x80 if guarded (1), slots
-- (2), claim in us (4), since when it stands and when it ends in us since 1970 (7 and 7).
CREATE TABLE IF NOT EXISTS rowlock_version (
  name        VARBINARY(255)  NOT NULL,
  hold        BINARY(16)      NOT NULL,
  owner       VARBINARY(255)  NOT NULL,
  token       BIGINT UNSIGNED NOT NULL,
  acquired_at DATETIME(6)     NOT NULL,
  expires_at  DATETIME(6)     NOT NULL,
  released_at DATETIME(6)     NULL,
  phase       BINARY(16)      NULL,
  line        VARBINARY(2368) NOT NULL DEFAULT '',
  PRIMARY KEY (name),
  UNIQUE KEY guard (token, name)
) ENGINE=InnoDB;

-- Two holds can have the same stored token here, so the guard names the hold too.
CREATE TABLE IF NOT EXISTS rowlock_unique (
  name        VARBINARY(255)  NOT NULL,
  hold        BINARY(16)      NOT NULL,
  owner       VARBINARY(255)  NOT NULL,
  token       BIGINT UNSIGNED NOT NULL,
  acquired_at DATETIME(6)     NOT NULL,
  expires_at  DATETIME(6)     NOT NULL,
  released_at DATETIME(6)     NULL,
  phase       BINARY(16)      NULL,
  line        VARBINARY(2368) NOT NULL DEFAULT '',
  PRIMARY KEY (name),
  UNIQUE KEY guard (token, name, hold)
) ENGINE=InnoDB;

-- SelectForUpdate: the lease beside the session that holds the lock; kept_until is the end of MinHold, conn_id the
-- number of the session, on the server that started then. wanted is the hint of a client that waits: when it ends, in ms since
-- 1970, times 2097152, plus the client's number. For keys that are shared: gate is the hold of a waiting exclusive attempt, which
-- keeps new readers and slots out until gate_until; before gate_after there is none.
CREATE TABLE IF NOT EXISTS rowlock_session (
  name        VARBINARY(255)  NOT NULL,
  hold        BINARY(16)      NOT NULL,
  owner       VARBINARY(255)  NOT NULL,
  token       BIGINT UNSIGNED NOT NULL,
  acquired_at DATETIME(6)     NOT NULL,
  expires_at  DATETIME(6)     NOT NULL,
  released_at DATETIME(6)     NULL,
  wanted      BIGINT UNSIGNED NULL,
  phase       BINARY(16)      NULL,
  gate        BINARY(16)      NULL,
  gate_until  DATETIME(6)     NULL,
  gate_after  DATETIME(6)     NULL,
  kept_until  DATETIME(6)     NULL,
  conn_id     BIGINT UNSIGNED NULL,
  server      VARBINARY(300)  NULL,
  started     DATETIME        NULL,
  PRIMARY KEY (name),
  UNIQUE KEY guard (token, name)
) ENGINE=InnoDB;

-- SelectForUpdate: the row that a session locks, and when it was granted the key its entry in the index held. It is never
-- updated.
CREATE TABLE IF NOT EXISTS rowlock_session_row (
  name VARBINARY(255) NOT NULL,
  PRIMARY KEY (name),
  KEY held (name)
) ENGINE=InnoDB;

-- VersionColumn: the readers and slots of a key, beside its row. slot is the number of a slot, or 2^63 and more for a
-- reader; token is the slot's own; phase is the token of the phase, a reader's (whose token is 2^64-1, so that no gap of
-- the guard index that a guard may lock is a reader's place).
CREATE TABLE IF NOT EXISTS rowlock_share (
  name        VARBINARY(255)  NOT NULL,
  slot        BIGINT UNSIGNED NOT NULL,
  hold        BINARY(16)      NOT NULL,
  owner       VARBINARY(255)  NOT NULL,
  token       BIGINT UNSIGNED NOT NULL,
  phase       BIGINT UNSIGNED NOT NULL,
  acquired_at DATETIME(6)     NOT NULL,
  expires_at  DATETIME(6)     NOT NULL,
  released_at DATETIME(6)     NULL,
  PRIMARY KEY (name, slot),
  UNIQUE KEY guard (token, name, slot)
) ENGINE=InnoDB;

-- UniqueInsert: the same, in a table of its own, because two strategies are two lock spaces.
CREATE TABLE IF NOT EXISTS rowlock_share_unique (
  name        VARBINARY(255)  NOT NULL,
  slot        BIGINT UNSIGNED NOT NULL,
  hold        BINARY(16)      NOT NULL,
  owner       VARBINARY(255)  NOT NULL,
  token       BIGINT UNSIGNED NOT NULL,
  phase       BIGINT UNSIGNED NOT NULL,
  acquired_at DATETIME(6)     NOT NULL,
  expires_at  DATETIME(6)     NOT NULL,
  released_at DATETIME(6)     NULL,
  PRIMARY KEY (name, slot),
  UNIQUE KEY guard (token, name, slot)
) ENGINE=InnoDB;

-- SelectForUpdate: the same.
CREATE TABLE IF NOT EXISTS rowlock_share_session (
  name        VARBINARY(255)  NOT NULL,
  slot        BIGINT UNSIGNED NOT NULL,
  hold        BINARY(16)      NOT NULL,
  owner       VARBINARY(255)  NOT NULL,
  token       BIGINT UNSIGNED NOT NULL,
  phase       BIGINT UNSIGNED NOT NULL,
  acquired_at DATETIME(6)     NOT NULL,
  expires_at  DATETIME(6)     NOT NULL,
  released_at DATETIME(6)     NULL,
  PRIMARY KEY (name, slot),
  UNIQUE KEY guard (token, name, slot)
) ENGINE=InnoDB;

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
