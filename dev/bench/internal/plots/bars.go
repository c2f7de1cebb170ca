package plots

// bars is a table of bars: a row for each lock, a column for each thing that was measured.
type bars struct {
	columns []column
	rows    []barRow
}

type column struct{ title, unit string }

type barRow struct {
	name, below string // below the name, small
	side        string
	cells       []point // y, least and most; y 0: not measured
}

const (
	barNames  = 232.0
	barHeight = 38.0
)

func (d bars) empty() bool { return len(d.rows) == 0 }

// draw draws from y on, and returns where it ends.
func (d bars) draw(c *canvas, y float64) float64 {
	each := (c.width - 2*edge - barNames) / float64(len(d.columns))
	const number = 46.0 // how wide
	y += 26
	for i, column := range d.columns {
		x := edge + barNames + float64(i)*each
		c.text(x, y, font{size: smallSize, colour: c.ink, bold: true}, column.title)
		c.text(x, y+15, font{size: smallSize - 0.5, colour: c.faint}, column.unit)
	}
	y += 22
	for _, r := range d.rows {
		y += barHeight
		c.line(edge, y-barHeight+6, c.width-edge, y-barHeight+6, 1, c.grid, "")
		colour := c.colour(r.side)
		name := font{size: bodySize, colour: colour, bold: true}
		if colour == c.other {
			name.colour = c.ink
		}
		c.text(edge, y-14, name, r.name)
		c.text(edge, y, font{size: smallSize - 1, colour: c.faint}, r.below)
		for i := range d.columns {
			cell := r.cells[i]
			x := edge + barNames + float64(i)*each
			if cell.y == 0 {
				c.text(x, y-8, font{size: smallSize, colour: c.faint}, "–")
				continue
			}
			a := axis{0, d.most(i), 0, each - number - 8, false}
			c.rect(x, y-20, max(a.at(cell.y), 1.5), 14, colour)
			if cell.least < cell.most {
				c.line(x+a.at(cell.least), y-13, x+a.at(cell.most), y-13, 1.4, c.ink, "")
			}
			c.text(x+a.at(max(cell.y, cell.most))+5, y-8, font{size: smallSize, colour: c.ink}, said(cell.y))
		}
	}
	return y + 10
}

func (d bars) most(column int) (most float64) {
	for _, r := range d.rows {
		most = max(most, r.cells[column].most)
	}
	return most
}
