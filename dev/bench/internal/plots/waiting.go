package plots

import (
	"fmt"

	"github.com/rowlock/rowlock/dev/bench/internal/lab"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// ranged is a row from one metric to another; false where the first was not measured.
func ranged(f *result.File, at result.At, middle, worst string) (row, bool) {
	v, ok := value(f, at, middle)
	if !ok {
		return row{}, false
	}
	r := row{name: named(at.Side), side: at.Side, middle: v.y, least: v.least, most: v.most}
	if w, ok := value(f, at, worst); ok {
		r.worst, r.worstIsKnown = w.y, true
	}
	return r, true
}

func handover(f *result.File) figure {
	d := dots{x: "ms from the release in one process to the key in another", log: true, unit: " ms"}
	add := func(title string, sides ...result.At) {
		g := group{title: title}
		for _, at := range sides {
			at.Number, at.Case = "N4", "4 × 8, hold 20ms"
			if r, ok := ranged(f, at, "p50 ms", "p99 ms"); ok {
				if title == others {
					r.name = servers[at.Server]
				}
				g.rows = append(g.rows, r)
			}
		}
		if len(g.rows) > 0 {
			d.groups = append(d.groups, g)
		}
	}
	for _, server := range lab.Databases {
		var sides []result.At
		for _, s := range []string{side.Version, side.Unique, side.ForUpdate, side.Mongo, side.GetLock, side.Poller} {
			sides = append(sides, result.At{Server: server, Side: s})
		}
		add(servers[server], sides...)
	}
	add(others, result.At{Server: "redis always", Side: side.Redislock}, result.At{Server: "etcd", Side: side.Etcd}, result.At{Server: "zookeeper", Side: side.ZooKeeper})
	ours := d.values(func(r row) bool { return isOurs(r.side) })
	return figure{"handover", "N4", "", fmt.Sprintf("A released key is in another process after %s ms", fromTo(ours)),
		"4 processes with 8 waiters each want one key and hold it for 20 ms. The dot is the median; 99 of 100 hand-overs end before the end of the line.", d}
}

const others = "Other locks"

func statements(f *result.File) figure {
	d := curves{x: "callers that wait in each of 4 processes", y: "statements for each hand-over", logY: true,
		panels: over(f, "N4", "statements/hand-over", []float64{1, 4, 8, 32}, func(x float64) string { return fmt.Sprintf("4 × %.0f, hold 20ms", x) },
			[]string{side.Version, side.Unique, side.ForUpdate, side.Mongo, side.GetLock, side.Poller})}
	var ours, polled []float64
	for _, p := range d.panels {
		for _, l := range p.lines {
			for _, q := range l.points {
				switch {
				case q.x != 8:
				case isOurs(l.side):
					ours = append(ours, q.y)
				case l.side == side.Poller:
					polled = append(polled, q.y)
				}
			}
		}
	}
	return figure{"statements", "N4", "", fmt.Sprintf("A hand-over costs %s statements, a loop that polls %s", fromTo(ours), fromTo(polled)),
		"Waiters are woken, they do not ask in a loop. Numbers in the title: 4 processes with 8 waiters each; the key is held for 20 ms.", d}
}

func readers(f *result.File) figure {
	clients := func(mode string) func(float64) string {
		return func(x float64) string {
			if x == 1 {
				return mode + ", 1 client"
			}
			return fmt.Sprintf("%s, %.0f clients", mode, x)
		}
	}
	xs := []float64{1, 8, 32}
	drawn := []string{side.Version, side.ForUpdate, side.Mongo} // unique is as version
	d := curves{x: "clients that want the same key", y: "locks per second", logY: true, panels: over(f, "N11", "grants/s", xs, clients("shared"), drawn)}
	exclusive := over(f, "N11", "grants/s", xs, clients("exclusive"), drawn)
	var times []float64
	for i := range d.panels {
		p := &d.panels[i]
		for _, e := range exclusive {
			if e.title != p.title {
				continue
			}
			for _, l := range e.lines {
				for _, shared := range p.lines {
					if shared.side == l.side && !shared.dashed {
						times = append(times, shared.points[len(shared.points)-1].y/l.points[len(l.points)-1].y)
					}
				}
				l.dashed, l.name = true, "exclusive"
				p.lines = append(p.lines, l)
			}
		}
	}
	return figure{"readers", "N11", "", fmt.Sprintf("32 readers that share a key get %s times the locks of 32 that take it alone", fromTo(times)),
		"Full lines: callers with Shared. Dashed lines: without it. UniqueInsert, not drawn, is like VersionColumn.", d}
}

func waits(f *result.File) figure {
	d := dots{x: "ms of waiting", log: true, unit: " ms"}
	for _, what := range []struct{ title, name string }{{"2 writers under a stream of 30 readers", "2 writers under 30 readers"}, {"8 readers under a stream of 4 writers", "8 readers under 4 writers"}} {
		g := group{title: what.title}
		for _, server := range lab.Databases {
			for _, s := range strategies {
				if r, ok := ranged(f, result.At{Number: "N11", Server: server, Side: s, Case: what.name}, "wait p50 ms", "longest wait ms"); ok {
					r.name = shortServer(server, s)
					g.rows = append(g.rows, r)
				}
			}
		}
		if len(g.rows) > 0 {
			d.groups = append(d.groups, g)
		}
	}
	return figure{"modes", "N11", "", "Writers get in among readers, and readers among writers",
		"Holds of 20 ms. The dot is the median wait, the line ends at the longest that was seen.", d}
}

// shortServer names a side and its server in few letters.
func shortServer(server, s string) string {
	name := map[string]string{lab.MySQL: "MySQL", lab.MariaDB: "MariaDB", lab.Mongo: "MongoDB, 1 node", lab.Mongo3: "MongoDB, 3 nodes"}[server]
	if s == side.Mongo {
		return name
	}
	return name + " " + s
}

func fair(f *result.File) figure {
	d := dots{x: "ms from the release in one process to the key in another", log: true, unit: " ms"}
	for _, server := range lab.Databases {
		g := group{title: servers[server]}
		for _, s := range strategies {
			for _, how := range []string{"unfair", "fair"} {
				r, ok := ranged(f, result.At{Number: "N11", Server: server, Side: s, Case: how + ", 16 × 1, hold 5ms"}, "p50 ms", "p99 ms")
				if !ok || s == side.ForUpdate { // which refuses Fair, since this was measured
					continue
				}
				if r.ring = how == "unfair"; !r.ring {
					r.name += ", Fair"
				}
				g.rows = append(g.rows, r)
			}
		}
		if len(g.rows) > 0 {
			d.groups = append(d.groups, g)
		}
	}
	title := fmt.Sprintf("A hand-over takes %s ms with Fair, %s ms without", fromTo(d.values(func(r row) bool { return !r.ring })), fromTo(d.values(func(r row) bool { return r.ring })))
	return figure{"fair", "N11", "", title,
		"16 processes hand one key to each other and hold it for 5 ms. Full dots: with Fair. The line ends where 99 of 100 have ended.", d}
}
