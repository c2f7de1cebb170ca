package side

import (
	"context"
	"fmt"
	"sync"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// fillStep is how many rows go in one transaction.
const fillStep = 50_000

// FillSQL puts n rows into each lock table that s names: dead ones, except where a
// row exists only while it is held.
func FillSQL(ctx context.Context, s Spec, n int) error {
	db, err := OpenSQL(s.Address, 1)
	if err != nil {
		return err
	}
	defer db.Close()
	const digit = "(SELECT 0 d UNION ALL SELECT 1 UNION ALL SELECT 2 UNION ALL SELECT 3 UNION ALL SELECT 4 UNION ALL SELECT 5" +
		" UNION ALL SELECT 6 UNION ALL SELECT 7 UNION ALL SELECT 8 UNION ALL SELECT 9)"
	const lease = " (name,hold,owner,token,acquired_at,expires_at,released_at)" +
		" SELECT %[2]s, UNHEX(LPAD(HEX(n), 32, '0')), 'bench', 1152921504606846976+1024*n, UTC_TIMESTAMP(6), "
	dead, held := lease+"'1970-01-02', UTC_TIMESTAMP(6)", lease+"UTC_TIMESTAMP(6)+INTERVAL 1 DAY, NULL"
	for _, t := range []struct{ table, form string }{
		{"_version", dead}, {"_unique", held}, {"_session", dead}, {"_session_row", " (name) SELECT %[2]s"},
	} {
		for from := 0; from < n; from += fillStep {
			numbers := fmt.Sprintf(" FROM (SELECT %d + a.d+10*b.d+100*c.d+1000*e.d+10000*f.d AS n FROM %s a, %s b, %s c, %s e, %s f) numbers WHERE n < %d",
				from, digit, digit, digit, digit, digit, min(n, from+fillStep))
			statement := fmt.Sprintf("INSERT INTO %[1]s"+t.form, s.Prefix+t.table, "CONCAT('row-', LPAD(n, 8, '0'))")
			if _, err := db.ExecContext(ctx, statement+numbers); err != nil {
				return err
			}
		}
		// What the bench reads next should be the table, not the purge of its making.
		if _, err := db.ExecContext(ctx, "ANALYZE TABLE "+s.Prefix+t.table); err != nil {
			return err
		}
	}
	return nil
}

// FillMongo puts n dead documents into the lock collection.
func FillMongo(ctx context.Context, s Spec, n int) error {
	c, err := connectMongo(s)
	if err != nil {
		return err
	}
	defer disconnect(c)
	coll := c.Database(s.Space).Collection(s.Prefix)
	parts := make(chan int)
	var wg sync.WaitGroup
	var mu sync.Mutex
	for range 4 {
		wg.Go(func() {
			for from := range parts {
				var docs []any
				for i := from; i < min(n, from+5000); i++ {
					name := fmt.Sprintf("row-%08d", i)
					docs = append(docs, bson.D{
						{Key: "_id", Value: bson.Binary{Data: []byte(name)}}, {Key: "name", Value: name}, {Key: "owner", Value: "bench"},
						{Key: "token", Value: int64(i) * 1024}, {Key: "acquiredAt", Value: time.Now()}, {Key: "expiresAt", Value: time.Unix(0, 0)},
					})
				}
				if _, e := coll.InsertMany(ctx, docs); e != nil {
					mu.Lock()
					err = e
					mu.Unlock()
				}
			}
		})
	}
	for from := 0; from < n; from += 5000 {
		parts <- from
	}
	close(parts)
	wg.Wait()
	return err
}
