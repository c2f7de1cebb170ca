package main

import (
	"bytes"
	"fmt"
	"image/color"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/font"
	"gonum.org/v1/plot/text"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgimg"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The picture is a grid: the panels in the order of the dashboard, and then what happened.
const (
	columns    = 3
	width      = 26 * vg.Centimeter
	gap        = 4 * vg.Millimeter
	panelWidth = (width - (columns+1)*gap) / columns
	headHeight = 6.5 * vg.Millimeter // title of a panel
	plotHeight = 3.6 * vg.Centimeter // with the labels of its x axis
	lineHeight = 3.7 * vg.Millimeter // of text
	sample     = 4.5 * vg.Millimeter // of a line, in a legend

	// wider is how much more room there is for text than it takes in the font of the picture: another of those that may
	// take its place is so much wider.
	wider = 1.17
)

// The colours can be told apart by people who do not see red and green (Okabe and Ito). After the last of them they
// begin again, dashed.
var (
	ink     = color.RGBA{R: 30, G: 30, B: 30, A: 255}
	faint   = color.RGBA{R: 110, G: 110, B: 110, A: 255}
	lines   = color.RGBA{R: 228, G: 228, B: 228, A: 255}
	marks   = color.RGBA{R: 120, G: 120, B: 120, A: 255}
	shade   = color.RGBA{R: 244, G: 236, B: 222, A: 255}
	colours = []color.RGBA{
		{G: 114, B: 178, A: 255}, {R: 213, G: 94, A: 255}, {G: 158, B: 115, A: 255}, {R: 204, G: 121, B: 167, A: 255},
		{R: 86, G: 180, B: 233, A: 255}, {R: 230, G: 159, A: 255}, {A: 255},
	}
)

func look(i int) draw.LineStyle {
	s := draw.LineStyle{Color: colours[i%len(colours)], Width: vg.Points(1.1)}
	if i/len(colours)%2 == 1 {
		s.Dashes = []vg.Length{vg.Points(3), vg.Points(1.5)}
	}
	return s
}

// draw writes the picture.
func (r recording) draw(file string) error {
	heights := r.heights()
	height := gap + vg.Length(len(r.Caption))*lineHeight + gap
	for _, h := range heights {
		height += h + gap
	}
	var picture io.WriterTo
	switch filepath.Ext(file) {
	case ".svg":
		c := vgsvg.New(width, height)
		picture = c
		if err := r.drawOn(draw.New(c), heights); err != nil {
			return err
		}
	case ".png":
		c := vgimg.PngCanvas{Canvas: vgimg.NewWith(vgimg.UseWH(width, height), vgimg.UseDPI(150))}
		picture = c
		if err := r.drawOn(draw.New(c), heights); err != nil {
			return err
		}
	default:
		return fmt.Errorf("%s: a picture is .svg or .png", file)
	}
	var b bytes.Buffer
	if _, err := picture.WriteTo(&b); err != nil {
		return err
	}
	return os.WriteFile(file, smaller(b.Bytes()), 0o644)
}

var styled = regexp.MustCompile(`style="([^"]*)"`)

// smaller is an SVG whose styles, of which there are few, are written once each. Where its font is missing another takes
// its place that is as wide. What is no SVG stays as it is.
func smaller(picture []byte) []byte {
	begin := bytes.Index(picture, []byte("<g "))
	if begin < 0 || !bytes.HasPrefix(picture, []byte("<?xml")) {
		return picture
	}
	names := make(map[string]string)
	sheet := []byte("<style>\n")
	body := styled.ReplaceAllFunc(picture[begin:], func(attribute []byte) []byte {
		is := string(styled.FindSubmatch(attribute)[1])
		if names[is] == "" {
			names[is] = fmt.Sprintf("s%d", len(names))
			sheet = fmt.Appendf(sheet, ".%s{%s}\n", names[is], strings.ReplaceAll(is, "font-family:Liberation Sans;", "font-family:Liberation Sans,Arial,Helvetica,sans-serif;"))
		}
		return fmt.Appendf(nil, `class="%s"`, names[is])
	})
	return slices.Concat(picture[:begin], sheet, []byte("</style>\n"), body)
}

// heights are those of the rows of the grid: the panels of each have room for the longest of their legends.
func (r recording) heights() (all []vg.Length) {
	for i := range len(r.Panels) + 1 { // one more: what happened
		if i%columns == 0 {
			all = append(all, 0)
		}
		need := headHeight + vg.Length(len(r.happened()))*lineHeight
		if i < len(r.Panels) {
			need = headHeight + plotHeight + vg.Length(len(r.Panels[i].legend()))*lineHeight
		}
		all[len(all)-1] = max(all[len(all)-1], need)
	}
	return all
}

// drawOn draws everything.
func (r recording) drawOn(c draw.Canvas, heights []vg.Length) error {
	c.SetColor(color.White)
	c.Fill(c.Rectangle.Path())
	top := c.Max.Y - gap
	for i := range len(r.Panels) + 1 {
		h := heights[i/columns]
		left := c.Min.X + gap + vg.Length(i%columns)*(panelWidth+gap)
		cell := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{Min: vg.Point{X: left, Y: top - h}, Max: vg.Point{X: left + panelWidth, Y: top}}}
		if i < len(r.Panels) {
			if err := r.drawPanel(cell, r.Panels[i]); err != nil {
				return fmt.Errorf("panel %s: %w", r.Panels[i].Title, err)
			}
		} else {
			head(cell, "What happened", "", "")
			for n, line := range r.happened() {
				cell.FillText(style(8, ink), vg.Point{X: cell.Min.X, Y: cell.Max.Y - headHeight - vg.Length(n)*lineHeight}, line)
			}
		}
		if i%columns == columns-1 || i == len(r.Panels) {
			top -= h + gap
		}
	}
	for _, line := range r.Caption {
		c.FillText(style(8, faint), vg.Point{X: c.Min.X + gap, Y: top}, line)
		top -= lineHeight
	}
	return nil
}

// style is that of text, whose upper left corner is where it is drawn.
func style(size vg.Length, c color.Color) text.Style {
	return text.Style{Color: c, Font: font.From(font.Font{Typeface: "Liberation", Variant: "Sans"}, size), XAlign: draw.XLeft, YAlign: draw.YTop, Handler: plot.DefaultTextHandler}
}

// head writes the title of a panel, its unit, and the row of the dashboard that it belongs to.
func head(c draw.Canvas, title, unit, row string) {
	bold := style(10, ink)
	bold.Font.Weight = 3 // bold
	c.FillText(bold, vg.Point{X: c.Min.X, Y: c.Max.Y}, title)
	c.FillText(style(8, faint), vg.Point{X: c.Min.X + wider*bold.Width(title+" "), Y: c.Max.Y - vg.Points(1.6)}, unit)
	right := style(8, faint)
	right.XAlign = draw.XRight
	c.FillText(right, vg.Point{X: c.Max.X, Y: c.Max.Y - vg.Points(1.6)}, row)
}

// drawPanel draws one panel.
func (r recording) drawPanel(c draw.Canvas, of panel) error {
	head(c, of.Title, unitName(of.Unit), of.Row)
	p := plot.New()
	p.BackgroundColor = color.White
	p.X.Min, p.X.Max = 0, r.Seconds
	p.X.Tick.Marker = ticks(0, r.Seconds, func(v float64) string { return fmt.Sprintf("%.0f s", v) })
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Tick.Label = withAlign(style(7.5, faint), axis.Tick.Label)
		axis.Tick.LineStyle.Color, axis.LineStyle.Color = marks, marks
		axis.Tick.Length = vg.Points(2)
		axis.Padding = 0
	}
	p.Add(happening(r.Events), gridLines())
	if of.Type == "heatmap" {
		if err := of.addHeat(p); err != nil {
			return err
		}
	} else if err := of.addLines(p); err != nil {
		return err
	}
	legend := of.legend()
	area := draw.Canvas{Canvas: c.Canvas, Rectangle: vg.Rectangle{
		Min: vg.Point{X: c.Min.X, Y: c.Max.Y - headHeight - plotHeight}, Max: vg.Point{X: c.Max.X, Y: c.Max.Y - headHeight},
	}}
	p.Draw(area)
	for n, entries := range legend {
		for _, e := range entries {
			y := area.Min.Y - vg.Points(1) - vg.Length(n)*lineHeight
			x := c.Min.X + e.x
			if of.Type == "heatmap" {
				c.SetColor(e.style.Color)
				c.Fill(vg.Rectangle{Min: vg.Point{X: x, Y: y - vg.Points(7)}, Max: vg.Point{X: x + sample, Y: y - vg.Points(1)}}.Path())
			} else {
				c.StrokeLine2(e.style, x, y-vg.Points(4), x+sample, y-vg.Points(4))
			}
			c.FillText(style(7.5, ink), vg.Point{X: x + sample + vg.Points(2.5), Y: y}, e.name)
		}
	}
	return nil
}

func withAlign(s, of text.Style) text.Style {
	s.XAlign, s.YAlign = of.XAlign, of.YAlign
	return s
}

// happened says what was done to the programs, in lines that fill what the panels leave of the last row.
func (r recording) happened() (all []string) {
	s := style(8, ink)
	free := vg.Length(columns - len(r.Panels)%columns)
	wide := free*panelWidth + (free-1)*gap
	for i, e := range r.Events {
		when := fmt.Sprintf("%.0f s", e.From)
		if e.To > 0 {
			when = fmt.Sprintf("%.0f to %.0f s", e.From, e.To)
		}
		line := fmt.Sprintf("%d: %s:", i+1, when)
		for word := range strings.FieldsSeq(e.Text) {
			if wider*s.Width(line+" "+word) > wide {
				all, line = append(all, line), "   "
			}
			line += " " + word
		}
		all = append(all, line)
	}
	return all
}

// entry is one of a legend.
type entry struct {
	name  string
	style draw.LineStyle
	x     vg.Length
}

// legend are the entries of a panel's legend, in lines as wide as the panel.
func (p panel) legend() (all [][]entry) {
	s, x := style(7.5, ink), vg.Length(0)
	names := p.names()
	for i, name := range names {
		e := entry{name: name, style: look(i)}
		if p.Type == "heatmap" {
			e.style.Color = heat(float64(i) / float64(len(names)-1))
		}
		w := sample + vg.Points(2.5) + wider*s.Width(name) + vg.Points(4)
		if len(all) == 0 || x+w > panelWidth+vg.Points(4) {
			all, x = append(all, nil), 0
		}
		e.x = x
		x += w
		all[len(all)-1] = append(all[len(all)-1], e)
	}
	return all
}
