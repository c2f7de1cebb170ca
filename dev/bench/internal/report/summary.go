package report

import (
	"slices"
	"strings"

	"github.com/rowlock/rowlock/dev/bench/internal/lab"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// SummaryTitle is what stands above SummaryTable.
const SummaryTitle = "In one table (ms; medians):"

// summaryWords explain the columns.
const summaryWords = `* *alone*: acquire and release by one caller, ms. *8, 32, 128*: such cycles a second by as many callers in one process, each with a key of its own.
* *hand-over*: from before the release in one process to after the acquire in another, ms; 4 processes of 8 callers want one key and hold it for 20 ms. *longest wait*: of any of these callers, ms.
* *takeover*: ms until the next has the key of a holder that was killed, with a TTL of 2 s.
* *stmts*: what a lone cycle sends. *conns*: connections of one client with 200 holders and 200 waiters (for-update: 50 and 50).
* *survives*: what an acknowledged lock survives. *disk*: a crash of the server's machine. *majority*: the loss of any node that is not the last of a majority. *no*: it ends with the connection or the server.
* GET_LOCK is what go-mysql-lock calls: the server's own lock, without lease, token, or anything written down.
`

// columns of the summary: where each value is found.
var columns = []struct{ head, number, what, metric string }{
	{"alone p50", "N1", "", "p50 ms"},
	{"p99", "N1", "", "p99 ms"},
	{"8/s", "N2", "8 workers", "cycles/s"},
	{"32/s", "N2", "32 workers", "cycles/s"},
	{"128/s", "N2", "128 workers", "cycles/s"},
	{"hand-over p50", "N4", "4 × 8, hold 20ms", "p50 ms"},
	{"longest wait", "N4", "4 × 8, hold 20ms", "longest wait ms"},
	{"takeover", "N7", "TTL 2s", "until the next has it ms"},
	{"stmts", "N1", "", "statements/cycle"},
	{"conns", "connections", "", "connections"},
}

// locks are the sides that a summary has, in its order.
var locks = []string{side.Version, side.Unique, side.ForUpdate, side.Mongo, side.GetLock, side.Poller, side.Redislock, side.Redsync, side.Etcd, side.ZooKeeper}

// SummaryTable is one line for each lock on each server, so that people can compare at a
// glance. It has what the run measured.
func SummaryTable(f *result.File) Table {
	t := Table{Head: []string{"server", "lock", "survives"}}
	for _, c := range columns {
		t.Head = append(t.Head, c.head)
	}
	for _, server := range servers(f) {
		for _, kind := range slices.Concat(locks, side.Registered()) {
			row, some := []string{server, kind, survives(server, kind)}, false
			for _, c := range columns {
				text := ""
				for _, m := range f.Measurements {
					if m.Number == c.number && m.Server == server && m.Side == kind && m.Metric == c.metric && (c.what == "" || m.Case == c.what) {
						text, some = brief(m), true
					}
				}
				row = append(row, text)
			}
			if some {
				t.Rows = append(t.Rows, row)
			}
		}
	}
	return t
}

func brief(m *result.Measurement) string {
	if m.Void != "" {
		return "void"
	}
	return Number(m.Median())
}

// servers are those that were measured, the databases first.
func servers(f *result.File) (list []string) {
	for _, m := range f.Measurements {
		if !slices.Contains(list, m.Server) {
			list = append(list, m.Server)
		}
	}
	slices.SortStableFunc(list, func(a, b string) int { return rank(a) - rank(b) })
	return list
}

// survives is what a lock survives that was acknowledged.
func survives(server, kind string) string {
	switch {
	case kind == side.GetLock:
		return "no"
	case server == lab.Mongo3:
		return "majority"
	case strings.HasSuffix(server, "everysec"):
		return "but 1–2 s"
	case server == lab.Own:
		return "?"
	}
	return "disk"
}
