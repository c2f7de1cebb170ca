package mysqllock

import (
	"context"
	"database/sql"
	"errors"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
)

var drawn = regexp.MustCompile(`class="sql">([^<]*)<`)

// TestDocsPicture: the picture in README.md shows the statements in the order in which they are sent when a holder acquires,
// renews and stands still, another takes the key over, and the first one goes on with a guarded transaction.
func TestDocsPicture(t *testing.T) {
	t.Parallel()
	svg, err := os.ReadFile("../docs/img/lease.svg")
	must(t, err)
	var picture []string
	for _, m := range drawn.FindAllStringSubmatch(string(svg), -1) {
		if m[1] != "START TRANSACTION" && m[1] != "ROLLBACK" { // the driver's own, which the recorder does not see
			picture = append(picture, m[1])
		}
	}
	l := newLab(t, testserver.MySQL, VersionColumn)
	rec := &recorder{}
	store := l.recorded(rec)
	ctx := within(t, time.Minute)
	client := func() *rowlock.Client {
		c, err := rowlock.New(store, rowlock.Options{ReapInterval: -1})
		must(t, err)
		t.Cleanup(func() { _ = c.Close(within(t, time.Minute)) })
		return c
	}
	a, b := client(), client()
	must(t, store.Check(ctx)) // connections, and what is sent once
	rec.take()

	held, err := a.Acquire(ctx, "report", rowlock.NoRenew())
	must(t, err)
	must(t, held.Renew(ctx))
	must(t, held.Renew(ctx))
	sent := rec.take()
	exec(t, l.db, "UPDATE rowlock_version SET expires_at='1970-01-02'") // as when the TTL is over, and A cannot know
	next, err := b.Acquire(ctx, "report", rowlock.NoRenew())
	must(t, err)
	sent = append(sent, rec.take()...)
	err = store.InTx(ctx, held, func(context.Context, *sql.Tx) error { return nil })
	if !errors.Is(err, rowlock.ErrLost) {
		t.Errorf("the guarded transaction of the old holder: %v, want ErrLost", err)
	}
	sent = append(sent, rec.take()...)
	must(t, next.Err())

	for _, label := range picture {
		i := slices.IndexFunc(sent, func(s string) bool { return drawnAs(s, label) })
		if i < 0 {
			t.Fatalf("the picture has %q, which is not sent then. Sent, after what it has before:\n%s", label, strings.Join(sent, "\n"))
		}
		sent = sent[i+1:]
	}
	if len(picture) != 5 {
		t.Errorf("the picture has %d statements: %q", len(picture), picture)
	}
}

// drawnAs reports whether a statement has the parts of a label, in which … stands for what is left out.
func drawnAs(statement, label string) bool {
	for _, part := range strings.Split(label, " … ") {
		_, rest, found := strings.Cut(statement, part)
		if !found {
			return false
		}
		statement = rest
	}
	return true
}
