package side

import (
	"context"
	"database/sql"
	"fmt"
)

const (
	takeRow = "UPDATE " + FloorTable + " SET version=version+1, until=UTC_TIMESTAMP(6)+INTERVAL 30 SECOND WHERE name=? AND until<=UTC_TIMESTAMP(6)"
	freeRow = "UPDATE " + FloorTable + " SET until='1970-01-02' WHERE name=?"
)

// openFloor is the least a durable lock can do, CAS and UPDATE, by a caller that
// has the key for itself.
func openFloor(ctx context.Context, s Spec) (Locker, error) {
	if isMongo(s) {
		return openFloorMongo(ctx, s)
	}
	db, err := OpenSQL(s.Address, s.Callers)
	if err != nil {
		return nil, err
	}
	return &funcs{lock: one(db, takeRow), unlock: one(db, freeRow), close: db.Close}, nil
}

// openFloorInsert is the same with a row that exists only while it is locked.
func openFloorInsert(_ context.Context, s Spec) (Locker, error) {
	db, err := OpenSQL(s.Address, s.Callers)
	if err != nil {
		return nil, err
	}
	return &funcs{
		lock:   one(db, "INSERT INTO "+FloorTable+"_insert VALUES (?, 1, UTC_TIMESTAMP(6)+INTERVAL 30 SECOND)"),
		unlock: one(db, "DELETE FROM "+FloorTable+"_insert WHERE name=?"),
		close:  db.Close,
	}, nil
}

// one sends a statement that must change one row.
func one(db *sql.DB, statement string) func(context.Context, string) error {
	return func(ctx context.Context, key string) error {
		r, err := db.ExecContext(ctx, statement, key)
		if err != nil {
			return err
		}
		if n, err := r.RowsAffected(); err != nil || n != 1 {
			return fmt.Errorf("%s: %d rows of %s changed (%w)", statement, n, key, err)
		}
		return nil
	}
}

func openSelectOne(_ context.Context, s Spec) (Locker, error) {
	db, err := OpenSQL(s.Address, s.Callers)
	if err != nil {
		return nil, err
	}
	ask := func(ctx context.Context, _ string) error {
		var n int
		return db.QueryRowContext(ctx, "SELECT 1").Scan(&n)
	}
	return &funcs{lock: ask, unlock: nothing, close: db.Close}, nil
}

func openPing(ctx context.Context, s Spec) (Locker, error) {
	if isMongo(s) {
		return openPingMongo(ctx, s)
	}
	db, err := OpenSQL(s.Address, s.Callers)
	if err != nil {
		return nil, err
	}
	ping := func(ctx context.Context, _ string) error { return db.PingContext(ctx) }
	return &funcs{lock: ping, unlock: nothing, close: db.Close}, nil
}
