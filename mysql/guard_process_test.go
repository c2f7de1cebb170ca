//go:build unix

package mysqllock

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	osexec "os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/go-sql-driver/mysql"

	"github.com/rowlock/rowlock"
	"github.com/rowlock/rowlock/internal/testserver"
	"github.com/rowlock/rowlock/locktest"
	"github.com/rowlock/rowlock/mysql/internal/conn"
)

// childVariable makes TestGuardChild a child: what to do, the strategy and the DSN.
const childVariable = "ROWLOCK_GUARD_CHILD"

// TestGuardChild is the child of the tests below.
func TestGuardChild(t *testing.T) {
	job, rest, _ := strings.Cut(os.Getenv(childVariable), " ")
	name, dsn, _ := strings.Cut(rest, " ")
	if job == "" {
		return // not a child
	}
	strategy, err := ParseStrategy(name)
	must(t, err)
	config, err := mysql.ParseDSN(dsn)
	must(t, err)
	config.Logger = &mysql.NopLogger{}
	l := &lab{t: t, config: config, strategy: strategy}
	l.db = l.open(config)
	a := l.programOn(t, l.bare(), rowlock.Options{TTL: l.childTTL()})
	switch job {
	case "once":
		runs(t, context.Background(), l, a, func() { fmt.Println("begun") })
	case "freeze":
		freezing(t, l, a)
	}
}

// childTTL is the TTL of children that are killed and stopped.
func (l *lab) childTTL() time.Duration { return max(l.shortest(), 300*time.Millisecond) }

type child struct {
	*os.Process
	say func(word string) string // the rest of the next line that begins with word
}

func (l *lab) child(t *testing.T, job string) child {
	t.Helper()
	cmd := osexec.Command(os.Args[0], "-test.run=^TestGuardChild$", "-test.count=1")
	cmd.Env = append(os.Environ(), childVariable+"="+job+" "+l.strategy.String()+" "+l.dsn())
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	scan := bufio.NewScanner(out)
	return child{cmd.Process, func(word string) string {
		var seen []string
		for scan.Scan() {
			if rest, ok := strings.CutPrefix(scan.Text(), word); ok {
				return strings.TrimSpace(rest)
			}
			seen = append(seen, scan.Text())
		}
		t.Fatalf("the child did not say %q but\n%s", word, strings.Join(seen, "\n"))
		return ""
	}}
}

// times is a number of trials from the environment.
func times(t testing.TB, variable string, few int) int {
	t.Helper()
	text := os.Getenv(variable)
	if text == "" {
		return few
	}
	n, err := strconv.Atoi(text)
	must(t, err)
	return n
}

// runs tries one run after the other until ctx ends.
func runs(t testing.TB, ctx context.Context, l *lab, a program, begun func()) {
	run := 0
	must(t, l.db.QueryRow("SELECT COUNT(*) FROM rowlock_run").Scan(&run))
	for ctx.Err() == nil {
		err := rowlock.Do(context.Background(), a.Client, "job", func(ctx context.Context, lease *rowlock.Lease) error {
			return a.Once(ctx, lease, fmt.Sprint(run), func(ctx context.Context, tx *sql.Tx) error {
				begun()
				time.Sleep(rand.N(3 * time.Millisecond))
				return note(ctx, tx, fmt.Sprint("run ", run))
			})
		})
		switch {
		case err == nil, errors.Is(err, rowlock.ErrAlreadyRan):
			run++
		case errors.Is(err, rowlock.ErrLost), errors.Is(err, rowlock.ErrConflict), errors.Is(err, rowlock.ErrUnknownOutcome):
		default:
			t.Errorf("run %d: %v", run, err)
			return
		}
	}
}

// TestP13_KilledProcesses: processes are killed at any moment of Once while others
// go on with the same runs. Each run takes effect once. ROWLOCK_KILLS is how many
// are killed for each strategy on each server.
func TestP13_KilledProcesses(t *testing.T) {
	testserver.Long(t)
	everywhere(t, func(t *testing.T, l *lab) {
		l.store()
		l.notes(t)
		ctx, stop := context.WithCancel(context.Background())
		var wg sync.WaitGroup
		rival := l.programOn(t, l.bare(), rowlock.Options{TTL: l.childTTL()})
		wg.Go(func() {
			for conn.Pause(ctx, 100*time.Millisecond) {
				turn, end := context.WithTimeout(ctx, 20*time.Millisecond)
				runs(t, turn, l, rival, func() {})
				end()
			}
		})
		kills := times(t, "ROWLOCK_KILLS", 10)
		for range kills {
			c := l.child(t, "once")
			c.say("begun")
			time.Sleep(rand.N(12 * time.Millisecond)) // in fn, in the commit, after it, in the next one
			must(t, c.Kill())
		}
		stop()
		wg.Wait()
		// The server may still be at the commit of the last one that was killed; whoever
		// is granted the key next comes after it.
		must(t, rival.lock(t, "job").Release(ctx))
		var last, marks, notes, different int
		must(t, l.db.QueryRow("SELECT MAX(CAST(run AS UNSIGNED)),COUNT(*) FROM rowlock_run").Scan(&last, &marks))
		must(t, l.db.QueryRow("SELECT COUNT(*),COUNT(DISTINCT text) FROM notes").Scan(&notes, &different))
		t.Logf("%d kills, %d runs, %d effects", kills, marks, notes)
		if marks != last+1 || notes != marks || different != marks {
			t.Errorf("P13: the last run is %d; %d marks, %d effects of %d runs", last, marks, notes, different)
		}
	})
}

// freezing is a holder whose server ends a silent session after a second, also in
// the middle of a transaction.
func freezing(t *testing.T, l *lab, a program) {
	ctx := context.Background()
	c, err := l.db.Conn(ctx)
	must(t, err)
	_, err = c.ExecContext(ctx, "SET SESSION wait_timeout=1")
	must(t, err)
	lease := a.lock(t, "a")
	fmt.Println("held", lease.Token())
	tx, err := c.BeginTx(ctx, nil)
	must(t, err)
	time.Sleep(rand.N(10 * time.Millisecond))
	if err = a.Guard(ctx, tx, lease); err == nil {
		_, err = tx.ExecContext(ctx, fmt.Sprintf("UPDATE accounts SET token=%d WHERE id=1", lease.Token()))
	}
	if err == nil {
		time.Sleep(rand.N(50 * time.Millisecond))
		err = tx.Commit()
	}
	fmt.Println("transaction", strings.ReplaceAll(fmt.Sprint(err), "\n", " "))
	fmt.Println("err", lease.Err())
}

// TestP4_FrozenProcess stops a holder at any moment of a guarded transaction for
// longer than its lease, lets another take the key over and write, and lets it go
// on: it commits nothing after that, and knows at its first look that it lost.
// ROWLOCK_FREEZES is how many are stopped for each strategy on each server.
func TestP4_FrozenProcess(t *testing.T) {
	testserver.Long(t)
	everywhere(t, func(t *testing.T, l *lab) {
		a := l.program(t, rowlock.Options{})
		exec(t, l.db, "CREATE TABLE accounts (id INT PRIMARY KEY, token BIGINT UNSIGNED) ENGINE=InnoDB")
		exec(t, l.db, "INSERT INTO accounts VALUES (1,0)")
		before := 0
		for range times(t, "ROWLOCK_FREEZES", 2) {
			c := l.child(t, "freeze")
			var token, stored int64
			_, err := fmt.Sscan(c.say("held"), &token)
			must(t, err)
			time.Sleep(rand.N(40 * time.Millisecond))
			must(t, c.Signal(syscall.SIGSTOP))
			lease := a.lock(t, "a")
			if lease.Token() <= token {
				locktest.Breach(t, "P3", "token %d after %d", lease.Token(), token)
				t.FailNow()
			}
			early := false
			must(t, a.InTx(t.Context(), lease, func(ctx context.Context, tx *sql.Tx) error {
				must(t, tx.QueryRowContext(ctx, "SELECT token FROM accounts WHERE id=1").Scan(&stored))
				if early = stored == token; early {
					before++
				}
				_, err := tx.ExecContext(ctx, fmt.Sprintf("UPDATE accounts SET token=%d WHERE id=1", lease.Token()))
				return err
			}))
			must(t, c.Signal(syscall.SIGCONT))
			said := c.say("transaction")
			if looked := c.say("err"); !early && !strings.Contains(looked, "lost") {
				t.Errorf("P2: after the freeze the holder's Err is %s", looked)
			}
			must(t, l.db.QueryRow("SELECT token FROM accounts WHERE id=1").Scan(&stored))
			if stored != lease.Token() || said == "<nil>" && !early {
				locktest.Breach(t, "P4", "the frozen holder's commit (%s) came after the takeover", said)
			}
			must(t, lease.Release(t.Context()))
		}
		t.Logf("%d had committed before they were stopped", before)
	})
}
