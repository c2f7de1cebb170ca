package main

import (
	"bytes"
	"fmt"
	"image/color"
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
	"gonum.org/v1/plot/vg/vgsvg"
)

// The picture is a grid: the panels in the order of the dashboard, and then what happened.
const (
	columns    = 3 // of all panels
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

// write writes the pictures into a folder: all panels, and the few that the guide shows, each for light and for dark pages.
func (r recording) write(folder string) error {
	all, err := r.draw(columns)
	if err != nil {
		return err
	}
	few, err := r.only(fewPanels).draw(1)
	if err != nil {
		return err
	}
	for name, picture := range map[string][]byte{
		"dashboard-light.svg": all, "dashboard-dark.svg": dark.Replace(all), "dashboard-few-light.svg": few, "dashboard-few-dark.svg": dark.Replace(few),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), picture, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// fewPanels are what a person looks at first.
var fewPanels = []string{"Least trust left", "Wait, p50 and p99", "Leases lost, by reason"}

// only is the recording with these panels alone.
func (r recording) only(titles []string) recording {
	r.Panels = slices.DeleteFunc(slices.Clone(r.Panels), func(p panel) bool { return !slices.Contains(titles, p.Title) })
	return r
}

// draw is the picture, with so many panels in a row.
func (r recording) draw(columns int) ([]byte, error) {
	r.Caption = wrapped(r.Caption, vg.Length(columns)*(panelWidth+gap)-gap)
	heights := r.heights(columns)
	height := gap + vg.Length(len(r.Caption))*lineHeight + gap
	for _, h := range heights {
		height += h + gap
	}
	c := vgsvg.New(vg.Length(columns)*(panelWidth+gap)+gap, height)
	if err := r.drawOn(draw.New(c), heights, columns); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if _, err := c.WriteTo(&b); err != nil {
		return nil, err
	}
	return smaller(b.Bytes()), nil
}

// swap replaces colours in a style sheet.
type swap []string

// dark are the colours on a dark page.
var dark = swap{
	"#FFFFFF", "#0D1117", "#1E1E1E", "#E6EDF3", "#6E6E6E", "#9198A1", "#787878", "#6A737D", "#E4E4E4", "#2A313A", "#F4ECDE", "#2B2519",
	"#0072B2", "#58B4F0", "#D55E00", "#FF9142", "#009E73", "#35D0A0", "#CC79A7", "#F08CC0", "#E69F00", "#E0B040", "#000000", "#FFFFFF",
}

// Replace is a picture with these colours.
func (s swap) Replace(picture []byte) []byte {
	head, body, _ := bytes.Cut(picture, []byte("</style>"))
	return slices.Concat([]byte(strings.NewReplacer(s...).Replace(string(head))), []byte("</style>"), body)
}

var styled = regexp.MustCompile(`style="([^"]*)"`)

// smaller is an SVG whose styles, of which there are few, are written once each. Where its font is missing another takes
// its place that is as wide.
func smaller(picture []byte) []byte {
	begin := bytes.Index(picture, []byte("<g "))
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
func (r recording) heights(columns int) (all []vg.Length) {
	for i := range len(r.Panels) + 1 { // one more: what happened
		if i%columns == 0 {
			all = append(all, 0)
		}
		need := headHeight + vg.Length(len(r.happened(columns)))*lineHeight
		if i < len(r.Panels) {
			need = headHeight + plotHeight + vg.Length(len(r.Panels[i].legend()))*lineHeight
		}
		all[len(all)-1] = max(all[len(all)-1], need)
	}
	return all
}

// drawOn draws everything.
func (r recording) drawOn(c draw.Canvas, heights []vg.Length, columns int) error {
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
			for n, line := range r.happened(columns) {
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
	c.FillText(style(8, faint), vg.Point{X: c.Min.X + 1.08*wider*bold.Width(title) + vg.Points(5), Y: c.Max.Y - vg.Points(1.6)}, unit)
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
func (r recording) happened(columns int) (all []string) {
	free := vg.Length(columns - len(r.Panels)%columns)
	for i, e := range r.Events {
		when := fmt.Sprintf("%.0f s", e.From)
		if e.To > 0 {
			when = fmt.Sprintf("%.0f to %.0f s", e.From, e.To)
		}
		all = append(all, fmt.Sprintf("%d: %s: %s", i+1, when, e.Text))
	}
	return wrapped(all, free*panelWidth+(free-1)*gap)
}

// wrapped are lines that are cut where they are too long, and go on a little to the right.
func wrapped(lines []string, wide vg.Length) (all []string) {
	s := style(8, ink)
	for _, text := range lines {
		line := ""
		for word := range strings.FieldsSeq(text) {
			if line != "" && wider*s.Width(line+" "+word) > wide {
				all, line = append(all, line), "  "
			}
			if line != "" {
				line += " "
			}
			line += word
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
