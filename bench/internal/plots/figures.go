package plots

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"gonum.org/v1/plot/plotter"

	"github.com/rowlock/rowlock/bench/internal/lab"
	"github.com/rowlock/rowlock/bench/internal/report"
	"github.com/rowlock/rowlock/bench/internal/result"
	"github.com/rowlock/rowlock/bench/internal/side"
)

// Write draws every figure that the run has the values for, as SVG and PNG, and
// returns them.
func Write(f *result.File, folder string) (figures []report.Figure, err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	for _, g := range []struct {
		report.Figure
		drawing
	}{
		{report.Figure{Name: "cycles", Number: "N2", Title: "Cycles a second over workers, each with a key of its own"}, cycles(f)},
		{report.Figure{Name: "handover", Number: "N4", Title: "Hand-over between processes: 4 processes × 8 waiters for one key, hold 20 ms"}, handover(f)},
		{report.Figure{Name: "statements", Number: "N4", Title: "Statements for a hand-over between 4 processes, hold 20 ms"}, statements(f)},
		{report.Figure{Name: "distance", Number: "N9", Title: "A lone caller's cycle over the distance of the server"}, distance(f)},
		{report.Figure{Name: "readers", Number: "N11", Title: "Readers of one key beside exclusive callers, hold 0"}, readers(f)},
		{report.Figure{Name: "modes", Number: "N11", Title: "Waits: 2 writers under a stream of 30 readers, 8 readers under a stream of 4 writers, hold 20 ms"}, waits(f)},
		{report.Figure{Name: "fair", Number: "N11", Title: "Hand-over with and without Fair: 16 processes with a caller each, hold 5 ms"}, fair(f)},
		{report.Figure{Name: "blocked", Number: "P15", Title: "p99 of other keys while some are blocked, less that without and 4 round trips"}, blocked(f)},
		{report.Figure{Name: "renew", Number: "renew", Title: "Renewal of many leases"}, renewals(f)},
	} {
		if len(g.panels) == 0 {
			continue
		}
		g.drawing.title, g.drawing.caption = g.Figure.Title, caption(f.Of(g.Number), g.drawing)
		if err := g.write(folder, g.Name); err != nil {
			return nil, err
		}
		figures = append(figures, g.Figure)
	}
	return figures, nil
}

// caption says what the values are worth, without the report beside them: f is the run that
// measured them.
func caption(f *result.File, d drawing) []string {
	note := d.note
	if note == "" {
		note = d.behind()
	}
	var servers []string
	for _, s := range f.Servers {
		servers = append(servers, s.Name+": "+s.Version)
	}
	lines := []string{
		note,
		fmt.Sprintf("%s. %s, %d cores, %s, a sync takes %s ms.", f.Started.Format("2006-01-02 15:04"), f.Machine.CPU, f.Machine.Cores, f.Machine.System, report.Number(f.Machine.FsyncP50)),
		strings.Join(servers, "; ") + ".",
	}
	if busy := f.Machine.Busy(); busy != "" {
		lines = append(lines, "The machine was busy: "+busy+".")
	}
	if f.Partial != "" {
		lines = append(lines, "The run is partial: "+f.Partial+".")
	}
	return lines
}

// behind says how many values are behind a point. The data has it, not the plan: some
// numbers are measured once whatever the rounds are, and a round can fail.
func (d drawing) behind() string {
	type counts struct{ least, most int }
	at := map[float64]counts{} // by x
	for _, p := range d.panels {
		for _, l := range p.lines {
			for i, n := range l.n {
				x := l.points[i].X
				c, known := at[x]
				if !known {
					c = counts{n, n}
				}
				at[x] = counts{min(c.least, n), max(c.most, n)}
			}
		}
	}
	var order []counts
	where := map[counts][]string{}
	for _, x := range slices.Sorted(maps.Keys(at)) {
		c := at[x]
		if where[c] == nil {
			order = append(order, c)
		}
		where[c] = append(where[c], short(x))
	}
	text := func(c counts) string {
		if c.least == c.most {
			return fmt.Sprintf("n = %d", c.most)
		}
		return fmt.Sprintf("n = %d to %d", c.least, c.most)
	}
	each := cmp.Or(d.each, "rounds")
	if len(order) == 1 {
		if order[0] == (counts{1, 1}) {
			return "One value behind each point (n = 1), so no bars show its spread."
		}
		return fmt.Sprintf("Medians of %s %s, bars from the smallest to the largest.", text(order[0]), each)
	}
	var parts []string
	for _, c := range order {
		parts = append(parts, text(c)+" at x = "+strings.Join(where[c], ", "))
	}
	return fmt.Sprintf("Medians of n %s, bars from the smallest to the largest; %s.", each, strings.Join(parts, "; "))
}

// peers is the panel of all servers that are no databases of the library's.
const peers = "other lock services"

// panelOf is the panel that a server belongs to, and the name of a side there.
func panelOf(at result.At) (panel, name string) {
	if slices.Contains(lab.Databases, at.Server) {
		return at.Server, at.Side
	}
	if at.Side == at.Server {
		return peers, at.Side
	}
	return peers, at.Side + ", " + at.Server
}

// curves makes panels of the measurements that pick takes, with at least two points
// a line.
func curves(f *result.File, number, metric string, pick func(result.At) bool) []panel {
	return curvesOf(f, number, metric, pick, panelOf)
}

// curvesOf is curves with the place of each measurement.
func curvesOf(f *result.File, number, metric string, pick func(result.At) bool, place func(result.At) (panel, name string)) (panels []panel) {
	type id struct{ panel, name string }
	type value struct {
		x, y, low, high float64
		n               int
	}
	lines := map[id][]value{}
	var order []id
	for _, m := range f.Measurements {
		if m.Number != number || m.Metric != metric || m.Void != "" || (m.Median() <= 0 && number != "P15") || !pick(m.At) {
			continue
		}
		where, name := place(m.At)
		key := id{where, name}
		if lines[key] == nil {
			order = append(order, key)
		}
		least, most := m.Spread()
		lines[key] = append(lines[key], value{m.X, m.Median(), m.Median() - least, most - m.Median(), len(m.Values)})
	}
	slices.SortFunc(order, func(a, b id) int { return inOrder(a.name, b.name) })
	for _, where := range slices.Concat(lab.Databases, []string{peers}) {
		p := panel{title: where}
		for _, key := range order {
			values := lines[key]
			if key.panel != where || len(values) < 2 {
				continue
			}
			slices.SortFunc(values, func(a, b value) int { return cmp.Compare(a.x, b.x) })
			l, spread := line{name: key.name, marks: true}, false
			for _, v := range values {
				l.points = append(l.points, plotter.XY{X: v.x, Y: v.y})
				l.n = append(l.n, v.n)
				spread = spread || v.low > 0 || v.high > 0
				l.bars = append(l.bars, struct{ Low, High float64 }{v.low, v.high})
			}
			if !spread { // one value each
				l.bars = nil
			}
			p.lines = append(p.lines, l)
		}
		if len(p.lines) > 0 {
			panels = append(panels, p)
		}
	}
	return panels
}

// sides is the order of legends.
var sides = []string{
	side.Version, side.Unique, side.ForUpdate, side.VersionProbes, side.UniqueProbes, side.Mongo, side.Guarded, side.SingleVersion, side.SingleUnique, side.SingleMongo,
	side.Floor, side.FloorInsert, side.Poller, side.GetLock,
}

func rankOf(name string) int {
	name, _, _ = strings.Cut(name, counted)
	of, _, _ := strings.Cut(name, ", ")
	for _, known := range []string{name, of} { // "version, probes only" is a side, "version, shared" one of two lines
		if i := slices.Index(sides, known); i >= 0 {
			return i
		}
	}
	return len(sides)
}

// counted stands in a legend between a side's name and its number of values.
const counted = " (n = "

// inOrder compares names by their place in legends, the same in every run.
func inOrder(a, b string) int {
	return cmp.Or(rankOf(a)-rankOf(b), strings.Compare(a, b))
}

func cycles(f *result.File) drawing {
	panels := curves(f, "N2", "cycles/s", func(result.At) bool { return true })
	d := drawing{x: "workers", y: "lease cycles per second", logX: true, logY: true, panels: panels}
	for _, p := range panels {
		for _, l := range p.lines {
			for _, xy := range l.points {
				if !slices.Contains(d.ticksX, xy.X) {
					d.ticksX = append(d.ticksX, xy.X)
				}
			}
		}
	}
	return d
}

func handover(f *result.File) drawing {
	d := drawing{note: "Of all hand-overs of all rounds; n is their number: where it is small the steps are single ones.", x: "ms from release to the next holder", y: "share of hand-overs", logX: true, minX: 0.1, maxX: 1000, minY: 0, maxY: 1}
	d.distribute(f, func(at result.At) (string, bool) {
		_, name := panelOf(at)
		return name, at.Number == "N4" && at.Case == "4 × 8, hold 20ms"
	})
	return d
}

// distribute makes panels of the distributions that name takes.
func (d *drawing) distribute(f *result.File, name func(result.At) (name string, taken bool)) {
	for _, where := range slices.Concat(lab.Databases, []string{peers}) {
		p := panel{title: where}
		for _, q := range f.Distributions {
			at, _ := panelOf(q.At)
			name, taken := name(q.At)
			if at != where || !taken {
				continue
			}
			points := make(plotter.XYs, len(q.Quantiles))
			for i, v := range q.Quantiles {
				points[i] = plotter.XY{X: min(max(v, d.minX), d.maxX), Y: float64(i) / float64(len(q.Quantiles)-1)}
			}
			if q.Count > 0 {
				name += fmt.Sprintf(counted+"%d)", q.Count)
			}
			p.lines = append(p.lines, line{name: name, points: points})
		}
		slices.SortFunc(p.lines, func(a, b line) int { return inOrder(a.name, b.name) })
		if len(p.lines) > 0 {
			d.panels = append(d.panels, p)
		}
	}
}

func statements(f *result.File) drawing {
	return drawing{x: "waiters in each of 4 processes", y: "statements per hand-over", logX: true, logY: true, ticksX: []float64{1, 4, 8, 16, 32},
		panels: curves(f, "N4", "statements/hand-over", func(at result.At) bool {
			return len(at.Case) > 3 && at.Case[:1] == "4" && at.Case[len(at.Case)-4:] == "20ms"
		})}
}

func renewals(f *result.File) drawing {
	return drawing{x: "leases", y: "ms for all of them", logX: true, logY: true,
		panels: curves(f, "renew", "p50 ms", func(result.At) bool { return true })}
}

func distance(f *result.File) drawing {
	return drawing{x: "ms of a round trip", y: "round trips for a cycle", logX: true, ticksX: []float64{1, 50, 300},
		panels: curves(f, "N9", "cycle ÷ RTT", func(result.At) bool { return true })}
}

func blocked(f *result.File) drawing {
	return drawing{each: "pairs of loads, with blocked keys and without", x: "blocked keys", y: "ms", logX: true, ticksX: []float64{1, 8, 32, 100},
		panels: curves(f, "P15", "p99 more, less 4 trips, ms", func(result.At) bool { return true })}
}
