// Package plots draws the figures of a run, each for light and for dark pages.
package plots

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/rowlock/rowlock/dev/bench/internal/report"
	"github.com/rowlock/rowlock/dev/bench/internal/result"
)

// drawing is what stands in a picture between its title and the lines below it.
type drawing interface {
	empty() bool
	draw(c *canvas, y float64) float64
}

// figure is a picture.
type figure struct {
	name, number string // of which the values are
	part         string // of the page where it stands; empty: that of the number
	title        string // what is seen
	text         string // how to read it
	drawing
}

// Write draws every figure that the run has the values for, as NAME-light.svg and NAME-dark.svg, and returns them.
func Write(f *result.File, folder string) (figures []report.Figure, err error) {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return nil, err
	}
	for _, make := range []func(*result.File) figure{compare, cycles, handover, statements, distance, readers, waits, fair, blocked, renewals} {
		g := make(f)
		if g.empty() {
			continue
		}
		for _, t := range themes {
			if err := os.WriteFile(filepath.Join(folder, g.name+"-"+t.name+".svg"), g.in(t, caption(f.Of(g.number))), 0o644); err != nil {
				return nil, err
			}
		}
		figures = append(figures, report.Figure{Name: g.name, Number: cmp.Or(g.part, g.number), Title: g.title})
	}
	return figures, nil
}

// in draws the figure in the colours of a theme.
func (g figure) in(t theme, caption string) []byte {
	c := &canvas{theme: t, width: panelWidth}
	y := c.paragraph(8, font{size: titleSize, colour: t.ink, bold: true}, g.title)
	y = c.paragraph(y+4, font{size: bodySize, colour: t.faint}, g.text)
	y = g.draw(c, y)
	c.height = c.paragraph(y+8, font{size: 11, colour: t.faint}, caption) + 12
	return c.svg(g.title)
}

// caption says where the values are from: f is the run that measured them.
func caption(f *result.File) string {
	var parts []string
	if f.Rounds == 1 {
		parts = append(parts, "One round")
	} else {
		parts = append(parts, fmt.Sprintf("Medians of up to %d rounds, bars from the smallest to the largest", f.Rounds))
	}
	m := f.Machine
	machine := fmt.Sprintf("%s, %d cores, a sync in %s ms, %s", m.CPU, m.Cores, report.Number(m.FsyncP50), f.Started.Format("2006-01-02"))
	parts = append(parts, machine)
	if busy := m.Busy(); busy != "" {
		busy, _, _ = strings.Cut(busy, ",")
		parts = append(parts, "Busy machine: "+busy)
	}
	if f.Partial != "" {
		parts = append(parts, "The run is partial: "+f.Partial)
	}
	return strings.Join(parts, ". ") + "."
}
