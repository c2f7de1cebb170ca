package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/rowlock/rowlock/doctor"
	"github.com/rowlock/rowlock/mysql/internal/conn"
	"github.com/rowlock/rowlock/mysql/internal/row"
	"github.com/rowlock/rowlock/mysql/internal/schema"
)

// tables looks at each table as Check does, and goes on after the first that does not fit.
func (e *Examination) tables(ctx context.Context) error {
	const missing, foreign, engine = "RL120", "RL123", "RL124"
	ids := map[schema.Kind]string{schema.Missing: missing, schema.Unfit: foreign, schema.Engine: engine}
	bad := make(map[string]bool) // by ID
	for _, d := range e.Defined {
		var needed []row.Layout // none: it may be missing
		if i := slices.IndexFunc(e.Layout, func(t row.Layout) bool { return t.Table == d.Table }); i >= 0 {
			needed = e.Layout[i : i+1]
		}
		err := conn.DetachedErr(ctx, e.DB, "doctor", func(ctx context.Context) error {
			return e.DB.Slow(ctx, func(c *conn.Conn) error { return schema.Check(ctx, c, needed, []schema.Definition{d}, "run Migrate") })
		})
		found := schema.FindingOf(err)
		switch {
		case err == nil:
			continue
		case found == nil:
			return err
		case found.Kind == schema.Refused:
			e.add("RL163", doctor.Fail, found.Says)
			fallthrough
		case found.Kind == schema.Denied: // which RL110 says
			e.add(missing, doctor.Skipped, found.Says)
			bad[missing] = true
		default:
			e.add(ids[found.Kind], doctor.Fail, found.Says, "table", d.Table, "mend", found.Mend)
			bad[ids[found.Kind]] = true
		}
	}
	e.fit = len(bad) == 0
	for _, id := range []string{missing, foreign, engine} {
		if !bad[id] {
			e.add(id, doctor.OK, count(len(e.Layout), "table"))
		}
	}
	return nil
}

const (
	manyDead = 1000
	sample   = 100_000 // rows that are counted at most
)

// deadRows counts what nobody reaps.
func (e *Examination) deadRows(ctx context.Context) error {
	const id = "RL122"
	dead, found := 0, false
	for _, t := range e.Layout {
		if !slices.Contains(t.Columns, "expires_at") {
			continue
		}
		rows, err := e.sessions[0].ask(ctx, fmt.Sprintf("SELECT COUNT(*) FROM (SELECT expires_at FROM %s LIMIT %d) AS t WHERE expires_at<"+row.Now+"-INTERVAL 2 DAY", t.Table, sample))
		switch conn.Number(err) {
		case conn.ErNoTable, conn.ErNoColumn, conn.ErTableDenied: // RL120, RL123 and RL110 say so
			continue
		}
		if err != nil {
			return e.refused(id, err)
		}
		n, _ := strconv.Atoi(rows[0][0])
		dead += n
		if n > manyDead {
			found = true
			e.add(id, doctor.Warn, fmt.Sprintf("%d in table %s", n, t.Table))
		}
	}
	if !found {
		e.add(id, doctor.OK, strconv.Itoa(dead))
	}
	return nil
}
