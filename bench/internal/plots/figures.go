package plots

import (
	"cmp"
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
		{report.Figure{Name: "renew", Number: "renew", Title: "Renewal of many leases"}, renewals(f)},
	} {
		if len(g.panels) == 0 {
			continue
		}
		g.drawing.title = g.Figure.Title
		if err := g.write(folder, g.Name); err != nil {
			return nil, err
		}
		figures = append(figures, g.Figure)
	}
	return figures, nil
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
func curves(f *result.File, number, metric string, pick func(result.At) bool) (panels []panel) {
	type id struct{ panel, name string }
	lines := map[id]plotter.XYs{}
	var order []id
	for _, m := range f.Measurements {
		if m.Number != number || m.Metric != metric || m.Median() <= 0 || !pick(m.At) {
			continue
		}
		where, name := panelOf(m.At)
		key := id{where, name}
		if lines[key] == nil {
			order = append(order, key)
		}
		lines[key] = append(lines[key], plotter.XY{X: m.X, Y: m.Median()})
	}
	slices.SortFunc(order, func(a, b id) int { return inOrder(a.name, b.name) })
	for _, where := range slices.Concat(lab.Databases, []string{peers}) {
		p := panel{title: where}
		for _, key := range order {
			if points := lines[key]; key.panel == where && len(points) > 1 {
				slices.SortFunc(points, func(a, b plotter.XY) int { return cmp.Compare(a.X, b.X) })
				p.lines = append(p.lines, line{key.name, points, true})
			}
		}
		if len(p.lines) > 0 {
			panels = append(panels, p)
		}
	}
	return panels
}

// sides is the order of legends.
var sides = []string{
	side.Version, side.Unique, side.ForUpdate, side.VersionBells, side.UniqueBells, side.Mongo, side.Guarded, side.SingleVersion, side.SingleUnique, side.SingleMongo,
	side.Floor, side.FloorInsert, side.Poller, side.GetLock,
}

func rankOf(name string) int {
	if i := slices.Index(sides, name); i >= 0 {
		return i
	}
	return len(sides)
}

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
	d := drawing{x: "ms from release to the next holder", y: "share of hand-overs", logX: true, minX: 0.1, maxX: 1000, minY: 0, maxY: 1}
	for _, where := range slices.Concat(lab.Databases, []string{peers}) {
		p := panel{title: where}
		for _, q := range f.Distributions {
			at, name := panelOf(q.At)
			if at != where || q.Case != "4 × 8, hold 20ms" {
				continue
			}
			points := make(plotter.XYs, len(q.Quantiles))
			for i, v := range q.Quantiles {
				points[i] = plotter.XY{X: min(max(v, d.minX), d.maxX), Y: float64(i) / float64(len(q.Quantiles)-1)}
			}
			p.lines = append(p.lines, line{name: name, points: points})
		}
		slices.SortFunc(p.lines, func(a, b line) int { return inOrder(a.name, b.name) })
		if len(p.lines) > 0 {
			d.panels = append(d.panels, p)
		}
	}
	return d
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
