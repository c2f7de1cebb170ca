package plots

import "slices"

// dots is a picture with a row for each side and a dot on it: the median of a row, a thin line to its worst, a thick one
// from the least median of a round to the largest.
type dots struct {
	x      string // what the axis has
	log    bool
	low    float64 // of the axis; 0: below the values
	groups []group
	limit  float64 // a line that the values should not cross; 0: none
	unit   string
}

// group is rows below a heading.
type group struct {
	title string
	rows  []row
}

type row struct {
	name         string
	side         string
	middle       float64
	least, most  float64 // of the rounds' medians
	worst        float64 // 0: none is shown
	ring         bool    // of two rows of a side the second
	worstIsKnown bool
}

const (
	rowHeight  = 23.0
	rowNames   = 186.0 // how wide
	rowValues  = 104.0
	bodySize   = 14.0
	smallSize  = 12.5
	titleSize  = 18.0
	edge       = 16.0
	panelWidth = 620.0
)

func (d dots) empty() bool { return len(d.groups) == 0 }

// draw draws from y on, and returns where it ends.
func (d dots) draw(c *canvas, y float64) float64 {
	low, high := d.low, 0.0
	for _, g := range d.groups {
		for _, r := range g.rows {
			high = max(high, r.worst, r.most, d.limit)
			if !d.log {
				low = min(low, r.least)
			} else if low == 0 || r.least < low {
				low = r.least
			}
		}
	}
	a := axis{low, high * 1.02, edge + rowNames, c.width - edge - rowValues, d.log}
	if d.log {
		a.low, a.high = low*0.8, high*1.2
	}
	begin := y
	end := y
	for _, g := range d.groups {
		end += rowHeight + rowHeight*float64(len(g.rows))
	}
	for _, v := range a.ticks() {
		c.line(a.at(v), begin+8, a.at(v), end+6, 1, c.grid, "")
		c.text(a.at(v), end+21, font{size: smallSize, colour: c.faint, anchor: "middle"}, said(v))
	}
	if d.limit != 0 {
		c.line(a.at(d.limit), begin+8, a.at(d.limit), end+6, 1.5, c.faint, "4 3")
	}
	if low < 0 {
		c.line(a.at(0), begin+8, a.at(0), end+6, 1.2, c.faint, "")
	}
	for _, g := range d.groups {
		y += rowHeight
		c.text(edge, y, font{size: bodySize, colour: c.ink, bold: true}, g.title)
		for _, r := range g.rows {
			y += rowHeight
			colour := c.colour(r.side)
			c.text(edge+8, y, font{size: bodySize, colour: colour}, r.name)
			at := y - 4.5
			if r.worstIsKnown {
				c.line(a.at(r.middle), at, a.at(r.worst), at, 1.6, colour, "")
				c.line(a.at(r.worst), at-4, a.at(r.worst), at+4, 1.6, colour, "")
			}
			if r.least < r.most {
				c.line(a.at(r.least), at, a.at(r.most), at, 5, colour, "")
			}
			c.dot(a.at(r.middle), at, 4.6, colour, r.ring)
			value := said(r.middle)
			if r.worstIsKnown {
				value += " to " + said(r.worst)
			}
			c.text(c.width-edge, y, font{size: bodySize, colour: c.ink, anchor: "end"}, value+d.unit)
		}
	}
	c.text(a.from+(a.to-a.from)/2, end+39, font{size: smallSize, colour: c.faint, anchor: "middle"}, d.x)
	return end + 44
}

// values are those of the rows.
func (d dots) values(of func(row) bool) (list []float64) {
	for _, g := range d.groups {
		for _, r := range g.rows {
			if of(r) {
				list = append(list, r.middle)
			}
		}
	}
	return list
}

// from and to say the range of values, as people say it: "3 to 14".
func fromTo(values []float64) string {
	if len(values) == 0 {
		return "?"
	}
	least, most := said(slices.Min(values)), said(slices.Max(values))
	if least == most {
		return least
	}
	return least + " to " + most
}
