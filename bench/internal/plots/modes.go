package plots

import (
	"slices"
	"strings"

	"github.com/rowlock/rowlock/bench/internal/result"
)

// readers draws the grants of readers, and of exclusive callers, over the number of clients.
func readers(f *result.File) drawing {
	const slots = "slots, "
	d := drawing{x: "clients", y: "grants per second", logX: true, logY: true,
		panels: curvesOf(f, "N11", "grants/s", func(at result.At) bool { return at.X > 0 && !strings.HasPrefix(at.Case, slots) },
			func(at result.At) (panel, name string) {
				panel, name = panelOf(at)
				mode, _, _ := strings.Cut(at.Case, ",")
				return panel, name + ", " + mode
			})}
	for _, p := range d.panels {
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

// waits draws how long readers and writers wait for each other.
func waits(f *result.File) drawing {
	d := drawing{note: "Of all waits of all rounds; n is their number: where it is small the steps are single ones.", x: "ms of waiting", y: "share of waits", logX: true, minX: 1, maxX: 10_000, minY: 0, maxY: 1}
	d.distribute(f, func(at result.At) (string, bool) {
		return at.Side + ", " + at.Case, at.Number == "N11" && (at.Case == "writers" || at.Case == "readers")
	})
	return d
}

// fair draws the hand-overs between programs with and without Fair; nothing without it.
func fair(f *result.File) drawing {
	d := drawing{note: "Of all hand-overs of all rounds; n is their number.", x: "ms from release to the next holder", y: "share of hand-overs", logX: true, minX: 0.1, maxX: 1000, minY: 0, maxY: 1}
	isFair := func(q *result.Distribution) bool { return q.Number == "N11" && strings.HasPrefix(q.Case, "fair") }
	if !slices.ContainsFunc(f.Distributions, isFair) {
		return d
	}
	d.distribute(f, func(at result.At) (string, bool) {
		how, _, _ := strings.Cut(at.Case, ",")
		return at.Side + ", " + how, at.Number == "N11" && (how == "fair" || how == "unfair")
	})
	return d
}
