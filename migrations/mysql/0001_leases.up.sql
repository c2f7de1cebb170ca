-- +goose Up
-- One row a key. The server writes all times, in UTC. A key is free when expires_at has passed.
-- The guard index is what a guarded transaction locks; renewals never touch it.
CREATE TABLE IF NOT EXISTS rowlock_version (
  name        VARBINARY(255)  NOT NULL,
  hold        BINARY(16)      NOT NULL,
  owner       VARBINARY(255)  NOT NULL,
  token       BIGINT UNSIGNED NOT NULL,
  acquired_at DATETIME(6)     NOT NULL,
  expires_at  DATETIME(6)     NOT NULL,
  released_at DATETIME(6)     NULL,
  conn_id     BIGINT UNSIGNED NULL,
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
  conn_id     BIGINT UNSIGNED NULL,
  PRIMARY KEY (name),
  UNIQUE KEY guard (token, name, hold)
) ENGINE=InnoDB;

-- SelectForUpdate: the lease beside the session that holds the lock; kept_until is the end of MinHold.
CREATE TABLE IF NOT EXISTS rowlock_session (
  name        VARBINARY(255)  NOT NULL,
  hold        BINARY(16)      NOT NULL,
  owner       VARBINARY(255)  NOT NULL,
  token       BIGINT UNSIGNED NOT NULL,
  acquired_at DATETIME(6)     NOT NULL,
  expires_at  DATETIME(6)     NOT NULL,
  released_at DATETIME(6)     NULL,
  kept_until  DATETIME(6)     NULL,
  conn_id     BIGINT UNSIGNED NULL,
  PRIMARY KEY (name),
  UNIQUE KEY guard (token, name)
) ENGINE=InnoDB;

-- SelectForUpdate: the row that a session locks. It is never updated.
CREATE TABLE IF NOT EXISTS rowlock_session_row (
  name VARBINARY(255) NOT NULL,
  PRIMARY KEY (name)
) ENGINE=InnoDB;
