package plots

import (
	"cmp"
	"slices"
)

// curves is a picture of panels below each other, with the same x axis.
type curves struct {
	x, y   string
	logY   bool
	panels []panel
}

// panel is one coordinate system.
type panel struct {
	title string
	lines []line
}

// line is a curve, with its name at its end.
type line struct {
	name   string
	side   string
	dashed bool
	points []point
}

type point struct{ x, y, least, most float64 }

const (
	lineNames = 172.0 // how wide
	yValues   = 44.0
)

func (d curves) empty() bool { return len(d.panels) == 0 }

// draw draws from y on, and returns where it ends.
func (d curves) draw(c *canvas, y float64) float64 {
	const tall = 120.0 // of a panel
	var xs []float64
	low, high := 0.0, 0.0
	for _, p := range d.panels {
		for _, l := range p.lines {
			for _, q := range l.points {
				if !slices.Contains(xs, q.x) {
					xs = append(xs, q.x)
				}
				high = max(high, q.most)
				if d.logY && (low == 0 || q.least < low) {
					low = q.least
				}
			}
		}
	}
	slices.Sort(xs)
	ax := axis{xs[0], xs[len(xs)-1], edge + yValues + 8, c.width - edge - lineNames, true}
	y += 20
	c.text(edge, y, font{size: smallSize, colour: c.faint}, d.y)
	for i, p := range d.panels {
		y += 24
		c.text(edge, y, font{size: bodySize, colour: c.ink, bold: true}, p.title)
		ay := axis{low, high * 1.05, y + 12 + tall, y + 12, d.logY}
		if d.logY {
			ay.low, ay.high = low*0.8, high*1.25
		}
		for _, v := range ay.ticks() {
			c.line(ax.from-8, ay.at(v), ax.to+6, ay.at(v), 1, c.grid, "")
			c.text(ax.from-14, ay.at(v)+4.5, font{size: smallSize, colour: c.faint, anchor: "end"}, said(v))
		}
		for _, x := range xs {
			c.line(ax.at(x), ay.from, ax.at(x), ay.to, 1, c.grid, "")
			c.text(ax.at(x), ay.from+17, font{size: smallSize, colour: c.faint, anchor: "middle"}, said(x))
		}
		for _, l := range p.lines {
			l.draw(c, ax, ay)
		}
		nameEnds(c, ax, ay, p.lines)
		y = ay.from + 18
		if i == len(d.panels)-1 {
			y += 18
			c.text(ax.from+(ax.to-ax.from)/2, y, font{size: smallSize, colour: c.faint, anchor: "middle"}, d.x)
		}
	}
	return y + 5
}

func (l line) draw(c *canvas, ax, ay axis) {
	colour, dash := c.colour(l.side), dashes(l.side)
	if l.dashed {
		dash = "5 4"
	}
	for i, p := range l.points {
		if i > 0 {
			before := l.points[i-1]
			c.line(ax.at(before.x), ay.at(before.y), ax.at(p.x), ay.at(p.y), 2.2, colour, dash)
		}
		if p.least < p.most {
			c.line(ax.at(p.x), ay.at(p.least), ax.at(p.x), ay.at(p.most), 1.2, colour, "")
		}
		c.dot(ax.at(p.x), ay.at(p.y), 3.2, colour, l.dashed || dash != "")
	}
}

// nameEnds writes the names of the lines at their ends, apart from each other.
func nameEnds(c *canvas, ax, ay axis, lines []line) {
	const apart = 16.0
	type end struct {
		line
		at, place float64
	}
	var ends []end
	for _, l := range lines {
		at := ay.at(l.points[len(l.points)-1].y)
		ends = append(ends, end{l, at, at})
	}
	slices.SortFunc(ends, func(a, b end) int { return cmp.Compare(a.at, b.at) })
	for i := 1; i < len(ends); i++ {
		ends[i].place = max(ends[i].place, ends[i-1].place+apart)
	}
	for i, bottom := len(ends)-1, ay.from+4; i >= 0; i, bottom = i-1, bottom-apart {
		ends[i].place = min(ends[i].place, bottom)
		bottom = min(bottom, ends[i].place)
	}
	for _, e := range ends {
		last := ax.at(e.points[len(e.points)-1].x)
		c.line(last+5, e.at, ax.to+16, e.place, 1, c.colour(e.side), "")
		c.text(ax.to+20, e.place+4.5, font{size: bodySize, colour: c.colour(e.side)}, e.name)
	}
}
