package workload

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/dev/verify/history"
	lockdriver "github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/fencing"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// sqlTables are the ledgers, effects and registers of all rounds on a server.
var sqlTables = []string{
	`CREATE TABLE IF NOT EXISTS verify_ledger (
		id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
		space VARCHAR(20) NOT NULL, name VARCHAR(100) NOT NULL, n BIGINT NOT NULL,
		token BIGINT NOT NULL, client VARCHAR(20) NOT NULL, event BIGINT NOT NULL,
		KEY (space, name, n)) ENGINE=InnoDB`,
	`CREATE TABLE IF NOT EXISTS verify_effect (
		id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
		space VARCHAR(20) NOT NULL, name VARCHAR(100) NOT NULL, run VARCHAR(40) NOT NULL,
		client VARCHAR(20) NOT NULL, event BIGINT NOT NULL,
		KEY (space, name, run)) ENGINE=InnoDB`,
	`CREATE TABLE IF NOT EXISTS verify_seen (
		id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY,
		space VARCHAR(20) NOT NULL, name VARCHAR(100) NOT NULL, n BIGINT NOT NULL,
		token BIGINT NOT NULL, client VARCHAR(20) NOT NULL, event BIGINT NOT NULL,
		KEY (space, name)) ENGINE=InnoDB`,
	`CREATE TABLE IF NOT EXISTS verify_pulse (id BIGINT NOT NULL AUTO_INCREMENT PRIMARY KEY) ENGINE=InnoDB`,
	`CREATE TABLE IF NOT EXISTS verify_register (
		space VARCHAR(20) NOT NULL, name VARCHAR(100) NOT NULL,
		value BIGINT NOT NULL, fence BIGINT NOT NULL,
		PRIMARY KEY (space, name)) ENGINE=InnoDB`,
}

// sqlBackend is a space on MySQL or MariaDB.
type sqlBackend struct {
	space     string
	locks     *mysqllock.Store
	db        *sql.DB
	pulses    *sql.DB                // each on a new connection
	causality atomic.Pointer[string] // see causal
}

func openSQL(space, address, pool string) (*sqlBackend, error) {
	strategy, err := mysqllock.ParseStrategy(space)
	if err != nil {
		return nil, err
	}
	locks, err := mysqllock.Open(address, mysqllock.Options{Strategy: strategy, SingleWriter: true})
	if err != nil {
		return nil, err
	}
	config, err := mysql.ParseDSN(pool)
	if err != nil {
		return nil, errors.Join(err, locks.Close())
	}
	config.Logger = &mysql.NopLogger{} // what it has to say comes as errors too
	config.RejectReadOnly = true       // of a cluster: a connection to the primary before is not kept
	connector, err := mysql.NewConnector(config)
	if err != nil {
		return nil, errors.Join(err, locks.Close())
	}
	db := sql.OpenDB(connector)
	db.SetMaxOpenConns(8)
	db.SetMaxIdleConns(8)
	pulses := sql.OpenDB(connector)
	pulses.SetMaxIdleConns(-1)
	return &sqlBackend{space: space, locks: locks, db: db, pulses: pulses}, nil
}

// causal is what a plain SELECT begins with to see all that was committed before on other nodes of Galera, where a node that has
// just become the writer may be behind. On a MariaDB that is no such node it changes nothing; MySQL does not know it.
func (b *sqlBackend) causal(ctx context.Context) (string, error) {
	if known := b.causality.Load(); known != nil {
		return *known, nil
	}
	var version, begin string
	if err := b.db.QueryRowContext(ctx, "SELECT VERSION()").Scan(&version); err != nil {
		return "", err
	}
	if strings.Contains(version, "MariaDB") {
		begin = "SET STATEMENT wsrep_sync_wait=1 FOR "
	}
	b.causality.Store(&begin)
	return begin, nil
}

func (b *sqlBackend) store() lockdriver.Store { return b.locks }

func (b *sqlBackend) close() error { return errors.Join(b.locks.Close(), b.closeSide()) }

// closeSide closes all but the locks.
func (b *sqlBackend) closeSide() error { return errors.Join(b.db.Close(), b.pulses.Close()) }

func (b *sqlBackend) commit(ctx context.Context, leases []*rowlock.Lease, rows []row, own bool, sending func([]int64)) error {
	if !own {
		return b.locks.InTx(ctx, leases[0], func(ctx context.Context, tx *sql.Tx) error {
			numbers, err := b.addAll(ctx, tx, leases, rows)
			if err == nil {
				sending(numbers)
			}
			return err
		}, leases[1:]...)
	}
	return b.inTx(ctx, sql.LevelDefault, func(tx *sql.Tx) error {
		if err := b.locks.Guard(ctx, tx, leases[0], leases[1:]...); err != nil {
			return err
		}
		numbers, err := b.addAll(ctx, tx, leases, rows)
		if err != nil {
			return conflict(err)
		}
		sending(numbers)
		return nil
	})
}

// addAll adds a row for each lease.
func (b *sqlBackend) addAll(ctx context.Context, tx *sql.Tx, leases []*rowlock.Lease, rows []row) (numbers []int64, err error) {
	for i, r := range rows {
		n, err := b.add(ctx, tx, leases[i].Key(), r)
		if err != nil {
			return nil, err
		}
		numbers = append(numbers, n)
	}
	return numbers, nil
}

// inTx runs fn in a transaction of the caller's.
func (b *sqlBackend) inTx(ctx context.Context, level sql.IsolationLevel, fn func(tx *sql.Tx) error) error {
	tx, err := b.db.BeginTx(ctx, &sql.TxOptions{Isolation: level})
	if err != nil {
		return err
	}
	defer tx.Rollback()
	if err := fn(tx); err != nil {
		return err
	}
	if err := tx.Commit(); err != nil && !errors.Is(err, sql.ErrTxDone) { // done: rolled back when ctx ended
		return fmt.Errorf("%w: %w", errCommit, err)
	} else if err != nil {
		return err
	}
	return nil
}

func (b *sqlBackend) once(ctx context.Context, lease *rowlock.Lease, mark string, r row, own bool) error {
	if !own {
		return b.locks.Once(ctx, lease, mark, func(ctx context.Context, tx *sql.Tx) error {
			return b.effect(ctx, tx, lease.Key(), r)
		})
	}
	return b.inTx(ctx, sql.LevelDefault, func(tx *sql.Tx) error {
		if err := b.locks.MarkRun(ctx, tx, lease, mark); err != nil {
			return err
		}
		return conflict(b.effect(ctx, tx, lease.Key(), r))
	})
}

// locked reads at READ COMMITTED, where each statement sees what was committed before it.
func (b *sqlBackend) locked(ctx context.Context, key string, r row, sending func(string)) error {
	return b.inTx(ctx, sql.LevelReadCommitted, func(tx *sql.Tx) error {
		if err := b.locks.LockTx(ctx, tx, key); err != nil {
			return err
		}
		err := tx.QueryRowContext(ctx, "SELECT COUNT(*) FROM verify_effect WHERE space = ? AND name = ?", r.Space, key).Scan(&r.Run)
		if err == nil {
			err = b.effect(ctx, tx, key, r)
		}
		if err == nil {
			sending(r.Run)
		}
		return conflict(err)
	})
}

func (b *sqlBackend) effect(ctx context.Context, tx *sql.Tx, key string, r row) error {
	_, err := tx.ExecContext(ctx, "INSERT INTO verify_effect (space, name, run, client, event) VALUES (?, ?, ?, ?, ?)", r.Space, key, r.Run, r.Client, r.Event)
	return err
}

// add adds the next row to the ledger of key, or what a reader found there.
func (b *sqlBackend) add(ctx context.Context, tx *sql.Tx, key string, r row) (n int64, err error) {
	name := r.ledger(key)
	err = tx.QueryRowContext(ctx, "SELECT COALESCE(MAX(n), 0) FROM verify_ledger WHERE space = ? AND name = ?", r.Space, name).Scan(&n)
	if err != nil {
		return 0, err
	}
	table := "verify_ledger"
	if r.Mode == history.Shared {
		table = "verify_seen"
	} else {
		n++
	}
	_, err = tx.ExecContext(ctx, "INSERT INTO "+table+" (space, name, n, token, client, event) VALUES (?, ?, ?, ?, ?, ?)",
		r.Space, name, n, r.Token, r.Client, r.Event)
	return n, err
}

// conflict marks an error of a caller's own transaction that the library would mark.
func conflict(err error) error {
	var e *mysql.MySQLError
	if errors.As(err, &e) && (e.Number == 1213 || e.Number == 1205) {
		return fmt.Errorf("%w: %w", rowlock.ErrConflict, err)
	}
	return err
}

func (b *sqlBackend) write(ctx context.Context, key string, token, value int64) error {
	return fencing.Update{
		Table: "verify_register", Set: "value = ?", Values: []any{value},
		Where: "space = ? AND name = ?", Row: []any{b.space, key},
	}.Run(ctx, b.db, token)
}

func (b *sqlBackend) read(ctx context.Context, key string) (value, token int64, err error) {
	causal, err := b.causal(ctx)
	if err != nil {
		return 0, 0, err
	}
	err = b.db.QueryRowContext(ctx, causal+"SELECT value, fence FROM verify_register WHERE space = ? AND name = ?", b.space, key).Scan(&value, &token)
	return value, token, err
}

// unapplied: there was no connection, or the server refused it, or undid the
// statement.
func (b *sqlBackend) unapplied(err error) bool {
	var dial *net.OpError
	var answer *mysql.MySQLError
	switch {
	case errors.As(err, &answer):
		switch answer.Number {
		case 1040, 1203, 1205, 1213: // too many connections, for the user; lock wait, deadlock
			return true
		}
		return false
	case errors.As(err, &dial):
		return dial.Op == "dial"
	}
	return errors.Is(err, driver.ErrBadConn)
}
