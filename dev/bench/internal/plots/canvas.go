package plots

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"
)

// canvas is an SVG in the making.
type canvas struct {
	theme
	b             strings.Builder
	width, height float64
}

// fonts are those of the reader's system. The layout has room for the widest of them.
const fonts = `-apple-system,'Segoe UI',Helvetica,Arial,'DejaVu Sans',sans-serif`

// svg is the finished picture. alt is what it shows, for those who cannot see it.
func (c *canvas) svg(alt string) []byte {
	return fmt.Appendf(nil, "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %[1]s %[2]s\" width=\"%[1]s\" height=\"%[2]s\" font-family=\"%[3]s\">\n<title>%[4]s</title>\n"+
		"<rect width=\"%[1]s\" height=\"%[2]s\" rx=\"6\" fill=\"%[5]s\"/>\n%[6]s</svg>\n", short(c.width), short(c.height), fonts, html.EscapeString(alt), c.ground, c.b.String())
}

// font is how a text is set.
type font struct {
	size   float64
	colour string
	bold   bool
	anchor string // start (the default), middle or end
}

func (c *canvas) text(x, y float64, f font, text string) {
	fmt.Fprintf(&c.b, `<text x="%s" y="%s" font-size="%s" fill="%s"`, short(x), short(y), short(f.size), f.colour)
	if f.bold {
		c.b.WriteString(` font-weight="600"`)
	}
	if f.anchor != "" {
		fmt.Fprintf(&c.b, ` text-anchor="%s"`, f.anchor)
	}
	fmt.Fprintf(&c.b, ">%s</text>\n", html.EscapeString(text))
}

// paragraph writes lines from y on, as wide as the picture, and returns where the next begins.
func (c *canvas) paragraph(y float64, f font, text string) float64 {
	for _, line := range wrapped(text, f, c.width-2*edge) {
		y += f.size * 1.35
		c.text(edge, y, f, line)
	}
	return y
}

// wrapped cuts a text into lines of at most a width, as few as possible and about equally long.
func wrapped(text string, f font, width float64) []string {
	best := cut(text, f, width)
	for len(best) > 1 {
		width *= 0.97
		even := cut(text, f, width)
		if len(even) > len(best) {
			break
		}
		best = even
	}
	return best
}

// cut cuts a text into lines, each as long as it can be.
func cut(text string, f font, width float64) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && wide(line+" "+word, f) > width {
			lines, line = append(lines, line), ""
		}
		line = strings.TrimSpace(line + " " + word)
	}
	return append(lines, line)
}

// wide is how wide a text is in the widest of the fonts.
func wide(text string, f font) float64 {
	each := 0.57
	if f.bold {
		each = 0.64
	}
	return each * f.size * float64(utf8.RuneCountInString(text))
}

func (c *canvas) line(x1, y1, x2, y2, width float64, colour, dashes string) {
	fmt.Fprintf(&c.b, `<path d="M%s %sL%s %s" stroke="%s" stroke-width="%s" fill="none"`, short(x1), short(y1), short(x2), short(y2), colour, short(width))
	if dashes != "" {
		fmt.Fprintf(&c.b, ` stroke-dasharray="%s"`, dashes)
	}
	c.b.WriteString("/>\n")
}

func (c *canvas) rect(x, y, width, height float64, colour string) {
	fmt.Fprintf(&c.b, `<rect x="%s" y="%s" width="%s" height="%s" rx="2" fill="%s"/>`+"\n", short(x), short(y), short(width), short(height), colour)
}

// dot is filled, or a ring.
func (c *canvas) dot(x, y, radius float64, colour string, ring bool) {
	fill := colour
	if ring {
		fill = c.ground
	}
	fmt.Fprintf(&c.b, `<circle cx="%s" cy="%s" r="%s" fill="%s" stroke="%s" stroke-width="1.8"/>`+"\n", short(x), short(y), short(radius), fill, colour)
}

// short is a number with at most one decimal.
func short(v float64) string {
	return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
}

// said is a value as people say it: 0.57, 3.9, 21, 1600, 17k.
func said(v float64) string {
	switch a := math.Abs(v); {
	case a >= 10_000:
		return strconv.FormatFloat(math.Round(v/1000), 'f', -1, 64) + "k"
	case a >= 1000:
		return strconv.FormatFloat(math.Round(v/100)*100, 'f', -1, 64)
	case a >= 10:
		return strconv.FormatFloat(math.Round(v), 'f', -1, 64)
	case a >= 1:
		return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64)
	}
	return strconv.FormatFloat(math.Round(v*100)/100, 'f', -1, 64)
}

// axis maps values to places.
type axis struct {
	low, high float64
	from, to  float64 // the places of low and high
	log       bool
}

func (a axis) at(v float64) float64 {
	v = min(max(v, a.low), a.high)
	low, high := a.low, a.high
	if a.log {
		v, low, high = math.Log(v), math.Log(low), math.Log(high)
	}
	return a.from + (v-low)/(high-low)*(a.to-a.from)
}

// ticks are round values on the axis, at most about six.
func (a axis) ticks() (values []float64) {
	if a.log {
		steps := []float64{1}
		if math.Log10(a.high/a.low) < 2.2 {
			steps = []float64{1, 3}
		}
		if math.Log10(a.high/a.low) < 1.2 {
			steps = []float64{1, 2, 5}
		}
		for power := math.Floor(math.Log10(a.low)); power <= math.Log10(a.high); power++ {
			for _, s := range steps {
				if v := s * math.Pow(10, power); v >= a.low*0.999 && v <= a.high*1.001 {
					values = append(values, v)
				}
			}
		}
		return values
	}
	step := math.Pow(10, math.Floor(math.Log10(a.high-a.low)))
	for (a.high-a.low)/step > 6 {
		step *= 2
	}
	for (a.high-a.low)/step < 3 {
		step /= 2
	}
	for i := math.Ceil(a.low / step); i*step <= a.high*1.001; i++ {
		values = append(values, i*step+0) // no -0
	}
	return values
}
