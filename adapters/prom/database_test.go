package promrowlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rowlock/rowlock"
	mongolock "github.com/rowlock/rowlock/mongo"
	mysqllock "github.com/rowlock/rowlock/mysql"
)

// What can be listed.
var (
	_ Lister = (*rowlock.Client)(nil)
	_ Lister = (*mysqllock.Store)(nil)
	_ Lister = (*mongolock.Store)(nil)
)

// TestDBCollector: keys by prefix and state, whoever has them.
func TestDBCollector(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx := context.Background()
		c, store, _ := newLocks(t, Options{})
		other, err := rowlock.New(store, rowlock.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer other.Close(ctx)
		d, err := NewDBCollector(store, DBOptions{Prefixes: []string{"import/", "report"}})
		if err != nil {
			t.Fatal(err)
		}
		acquire(t, c, "import/1")
		time.Sleep(time.Minute)
		acquire(t, c, "import/2")
		acquire(t, c, "import/3", rowlock.MinHold(time.Hour)).Release(ctx)
		acquire(t, c, "import/4").Release(ctx)
		acquire(t, c, "else")
		waiting, cancel := context.WithCancel(ctx)
		defer cancel()
		go other.Acquire(waiting, "import/1")
		time.Sleep(time.Second)
		compare(t, d, `
			# HELP rowlock_db_keys Keys that the database has, by state: held, kept by MinHold, pinned by an open transaction, free.
			# TYPE rowlock_db_keys gauge
			rowlock_db_keys{prefix="import/",state="free"} 1
			rowlock_db_keys{prefix="import/",state="held"} 2
			rowlock_db_keys{prefix="import/",state="kept"} 1
			rowlock_db_keys{prefix="import/",state="pinned"} 0
			rowlock_db_keys{prefix="report",state="free"} 0
			rowlock_db_keys{prefix="report",state="held"} 0
			rowlock_db_keys{prefix="report",state="kept"} 0
			rowlock_db_keys{prefix="report",state="pinned"} 0
			# HELP rowlock_db_oldest_hold_seconds How long the oldest hold has been held, by the clocks of the database and of this program; 0: none is.
			# TYPE rowlock_db_oldest_hold_seconds gauge
			rowlock_db_oldest_hold_seconds{prefix="import/"} 61
			rowlock_db_oldest_hold_seconds{prefix="report"} 0
			# HELP rowlock_db_truncated 1: there are more keys than were read.
			# TYPE rowlock_db_truncated gauge
			rowlock_db_truncated{prefix="import/"} 0
			rowlock_db_truncated{prefix="report"} 0
			# HELP rowlock_db_up 1: the database answered.
			# TYPE rowlock_db_up gauge
			rowlock_db_up 1
			# HELP rowlock_db_wanted_keys Keys that are held and that another program waits for.
			# TYPE rowlock_db_wanted_keys gauge
			rowlock_db_wanted_keys{prefix="import/"} 1
			rowlock_db_wanted_keys{prefix="report"} 0
		`)
	})
}

// lister lists numbered keys.
type lister struct {
	keys  int
	reads int
	err   error
}

func (l *lister) List(ctx context.Context, prefix, after string, limit int) (infos []rowlock.Info, err error) {
	l.reads++
	if l.err != nil {
		return nil, l.err
	}
	if _, bounded := ctx.Deadline(); !bounded {
		return nil, errors.New("no deadline")
	}
	for i := range l.keys {
		if key := fmt.Sprintf("%s%06d", prefix, i); key > after && len(infos) < limit {
			infos = append(infos, rowlock.Info{Key: key, Held: true})
		}
	}
	return infos, nil
}

// TestDBCollectorPages: all keys are counted, up to the bound, and it says where there are more.
func TestDBCollectorPages(t *testing.T) {
	for _, c := range []struct{ keys, most, want, truncated int }{
		{0, 0, 0, 0}, {499, 0, 499, 0}, {500, 0, 500, 0}, {1700, 0, 1700, 0}, {1700, 1700, 1700, 0}, {1700, 1699, 1699, 1}, {1700, 500, 500, 1}, {1700, 1, 1, 1},
	} {
		d, err := NewDBCollector(&lister{keys: c.keys}, DBOptions{MaxKeys: c.most})
		if err != nil {
			t.Fatal(err)
		}
		all := gather(t, d)
		held := 0
		for _, m := range all["rowlock_db_keys"].GetMetric() {
			held += int(m.GetGauge().GetValue())
		}
		if truncated := int(all["rowlock_db_truncated"].GetMetric()[0].GetGauge().GetValue()); held != c.want || truncated != c.truncated {
			t.Errorf("%d keys, at most %d: %d and truncated %d", c.keys, c.most, held, truncated)
		}
	}
}

// TestDBCollectorDown: a database that does not answer has no numbers of keys, and is asked no more often than said.
func TestDBCollectorDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &lister{err: errors.New("connection refused")}
		d, err := NewDBCollector(l, DBOptions{})
		if err != nil {
			t.Fatal(err)
		}
		all := gather(t, d)
		if len(all) != 1 || all["rowlock_db_up"].GetMetric()[0].GetGauge().GetValue() != 0 {
			t.Errorf("%v", all)
		}
		gather(t, d)
		if l.reads != 1 {
			t.Errorf("%d reads at a time", l.reads)
		}
		time.Sleep(6 * time.Second)
		l.err = nil
		if all := gather(t, d); l.reads != 2 || all["rowlock_db_up"].GetMetric()[0].GetGauge().GetValue() != 1 {
			t.Errorf("%d reads; %v", l.reads, all)
		}
	})
}

// TestDBOptions: what is wrong with them is said.
func TestDBOptions(t *testing.T) {
	for text, o := range map[string]DBOptions{
		`the prefix "a" is there twice`: {Prefixes: []string{"a", "b", "a"}},
		"201 prefixes":                  {Prefixes: slices.Repeat([]string{"a"}, 201)},
		"MaxKeys -1":                    {MaxKeys: -1},
		"Timeout -1s":                   {Timeout: -time.Second},
	} {
		if _, err := NewDBCollector(&lister{}, o); !errors.Is(err, rowlock.ErrInvalid) || !strings.Contains(err.Error(), text) {
			t.Errorf("%v, want %q", err, text)
		}
	}
	if _, err := NewDBCollector(nil, DBOptions{}); !errors.Is(err, rowlock.ErrInvalid) {
		t.Errorf("nil: %v", err)
	}
}
