package plots

import (
	"fmt"
	"slices"

	"github.com/rowlock/rowlock/dev/bench/internal/lab"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
	"github.com/rowlock/rowlock/dev/bench/internal/side"
)

// value is a measurement as a point; false where it was not measured or is void.
func value(f *result.File, at result.At, metric string) (point, bool) {
	m := f.Find(at, metric)
	if m == nil || m.Void != "" || len(m.Values) == 0 {
		return point{}, false
	}
	least, most := m.Spread()
	return point{y: m.Median(), least: least, most: most}, true
}

// strategies are the sides that are locks of the library.
var strategies = []string{side.Version, side.Unique, side.ForUpdate, side.Mongo}

func isOurs(s string) bool { return slices.Contains(strategies, s) }

// over makes panels of lines over the numbers in cases, which caseOf makes of them.
func over(f *result.File, number, metric string, xs []float64, caseOf func(x float64) string, drawn []string) (panels []panel) {
	for _, server := range lab.Databases {
		p := panel{title: servers[server]}
		for _, s := range drawn {
			l := line{name: named(s), side: s}
			for _, x := range xs {
				if v, ok := value(f, result.At{Number: number, Server: server, Side: s, Case: caseOf(x)}, metric); ok {
					v.x = x
					l.points = append(l.points, v)
				}
			}
			if len(l.points) > 1 {
				p.lines = append(p.lines, l)
			}
		}
		if len(p.lines) > 0 {
			panels = append(panels, p)
		}
	}
	return panels
}

// compare has what most people want to know first, in one picture.
func compare(f *result.File) figure {
	d := bars{columns: []column{{"One lock", "ms; less is better"}, {"128 callers", "/s; more is better"}, {"Hand-over", "ms; less is better"}}}
	const no, disk = "a crash forgets it", "survives a crash of the machine"
	for _, r := range []struct{ name, below, server, side string }{
		{"rowlock on MySQL", disk, lab.MySQL, side.Version},
		{"rowlock on MariaDB", disk, lab.MariaDB, side.Version},
		{"rowlock on MongoDB", disk, lab.Mongo, side.Mongo},
		{"rowlock on 3 MongoDBs", "survives the loss of a node", lab.Mongo3, side.Mongo},
		{"redislock, safe", "appendfsync always: survives a crash", "redis always", side.Redislock},
		{"redislock, usual", "everysec: a crash forgets 1 to 2 s", "redis everysec", side.Redislock},
		{"etcd", disk, "etcd", side.Etcd},
		{"ZooKeeper", disk, "zookeeper", side.ZooKeeper},
		{"GET_LOCK of MySQL", no, lab.MySQL, side.GetLock},
	} {
		row := barRow{name: r.name, below: r.below, side: r.side}
		some := false
		for _, at := range []struct{ number, what, metric string }{{"N1", "", "p50 ms"}, {"N2", "128 workers", "cycles/s"}, {"N4", "4 × 8, hold 20ms", "p50 ms"}} {
			v, ok := value(f, result.At{Number: at.number, Server: r.server, Side: r.side, Case: at.what}, at.metric)
			some = some || ok
			row.cells = append(row.cells, v)
		}
		if some {
			d.rows = append(d.rows, row)
		}
	}
	return figure{"compare", "N1", "summary", "What a lock costs, beside other locks", "Acquire and release by one caller, by 128, and from one process to the next. MySQL and MariaDB with VersionColumn.", d}
}

func cycles(f *result.File) figure {
	workers := func(x float64) string {
		if x == 1 {
			return "1 worker"
		}
		return fmt.Sprintf("%.0f workers", x)
	}
	d := curves{x: "callers at once, each with a key of its own", y: "locks per second", logY: true,
		panels: over(f, "N2", "cycles/s", []float64{1, 8, 32, 128}, workers, []string{side.Version, side.Unique, side.ForUpdate, side.Mongo, side.Floor})}
	var times, alone []float64 // of those whose callers share commits, and of SelectForUpdate, whose do not
	for _, p := range d.panels {
		for _, l := range p.lines {
			switch first, last := l.points[0], l.points[len(l.points)-1]; {
			case l.side == side.Floor, first.x != 1, last.x != 128:
			case l.side == side.ForUpdate:
				alone = append(alone, last.y/first.y)
			default:
				times = append(times, last.y/first.y)
			}
		}
	}
	title := "The more callers, the cheaper a lock"
	if len(times) > 0 {
		title = fmt.Sprintf("128 callers get %s times the locks of one", fromTo(times))
	}
	if len(alone) > 0 {
		title += fmt.Sprintf(" (SelectForUpdate %s)", fromTo(alone))
	}
	return figure{"cycles", "N2", "", title, "Calls that come at the same time share a statement. The dashed line is the least a durable lock can cost alone: two commits, written by hand.", d}
}

func distance(f *result.File) figure {
	d := curves{x: "ms to the server and back", y: "round trips for one lock: acquire and release",
		panels: over(f, "N9", "cycle ÷ RTT", []float64{1, 50, 300}, func(x float64) string { return fmt.Sprintf("RTT %.0fms", x) }, strategies)}
	var trips []float64
	for _, p := range d.panels {
		for _, l := range p.lines {
			trips = append(trips, l.points[len(l.points)-1].y)
		}
	}
	return figure{"distance", "N9", "", fmt.Sprintf("A lock costs %s round trips to a distant server", fromTo(trips)), "Near the server its own work is most of the time, so the lines begin higher.", d}
}

func renewals(f *result.File) figure {
	d := curves{x: "leases", y: "ms to renew them all", logY: true,
		panels: over(f, "renew", "p50 ms", []float64{1, 10, 100, 1000}, func(x float64) string { return fmt.Sprintf("%.0f leases", x) }, strategies)}
	var thousand []float64
	for _, p := range d.panels {
		for _, l := range p.lines {
			if last := l.points[len(l.points)-1]; last.x == 1000 {
				thousand = append(thousand, last.y)
			}
		}
	}
	return figure{"renew", "renew", "", fmt.Sprintf("1000 leases are renewed in %s ms", fromTo(thousand)), "A statement renews hundreds of leases. SelectForUpdate pings a connection for each.", d}
}

func blocked(f *result.File) figure {
	d := dots{x: "how many ms longer 99 of 100 locks of other keys take at most", limit: 100, unit: " ms"}
	for _, server := range lab.Databases {
		g := group{title: servers[server]}
		for _, s := range strategies {
			if v, ok := value(f, result.At{Number: "P15", Server: server, Side: s, Case: "100 blocked"}, "p99 more, less 4 trips, ms"); ok {
				g.rows = append(g.rows, row{name: named(s), side: s, middle: v.y, least: v.least, most: v.most})
			}
		}
		if len(g.rows) > 0 {
			d.groups = append(d.groups, g)
		}
	}
	most := d.values(func(row) bool { return true })
	title := "Keys that others block do not slow down the rest"
	if len(most) > 0 {
		title = fmt.Sprintf("100 blocked keys delay the locks of other keys by at most %s ms", said(slices.Max(most)))
	}
	return figure{"blocked", "P15", "", title, "One client waits for 100 keys that foreign transactions block, and locks others meanwhile. The dashed line is the bound: 100 ms.", d}
}
