package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rowlock/rowlock/observability/internal/grafana"
	"github.com/rowlock/rowlock/observability/internal/prom"
)

// answers answers every query with the same series, but one expression with NaN alone.
type answers struct{ nan string }

func (a answers) QueryRange(_ context.Context, expr string, from, to time.Time, step time.Duration) ([]prom.Series, error) {
	var all []prom.Series
	for i, le := range []string{"0.5", "1", "+Inf"} {
		s := prom.Series{Metric: map[string]string{"client": fmt.Sprint("client", i), "le": le}}
		for at := from; !at.After(to); at = at.Add(step) {
			v := float64(i + 1)
			if second := at.Sub(from).Seconds(); second > 30 && second < 40 || expr == a.nan {
				v = math.NaN()
			}
			s.Points = append(s.Points, prom.Point{At: at, Value: v})
		}
		all = append(all, s)
	}
	return all, nil
}

func readDashboard(t *testing.T) grafana.Dashboard {
	t.Helper()
	d, err := grafana.Read("../grafana.json")
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestAsk: each expression of each panel is asked, values that are NaN are left out, and an expression without any
// other is an error that names the panel.
func TestAsk(t *testing.T) {
	d, from := readDashboard(t), time.Now()
	panels, err := ask(t.Context(), answers{}, d, from)
	if err != nil {
		t.Fatal(err)
	}
	next := 0
	for _, of := range d.Panels {
		if of.IsRow() {
			continue
		}
		p := panels[next]
		next++
		if p.Title != of.Title || len(p.Series) != 3*len(of.Targets) {
			t.Errorf("panel %s has %d series, want those of %s", p.Title, len(p.Series), of.Title)
		}
		for _, s := range p.Series {
			if len(s.Points) != int(duration/step)+1-9 || len(s.parts()) != 2 {
				t.Errorf("panel %s: %d points in %d parts", p.Title, len(s.Points), len(s.parts()))
			}
		}
	}
	if next != len(panels) {
		t.Errorf("%d panels, want %d", len(panels), next)
	}
	for _, of := range d.Panels {
		for _, target := range of.Targets {
			if _, err := ask(t.Context(), answers{target.Query(rate)}, d, from); err == nil || !strings.Contains(err.Error(), "panel "+of.Title+" shows nothing") {
				t.Errorf("panel %s without a number: %v", of.Title, err)
			}
		}
	}
}

// TestDraw: a picture has the title, the unit and the legend of each panel, and what happened.
func TestDraw(t *testing.T) {
	panels, err := ask(t.Context(), answers{}, readDashboard(t), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	r := recording{Seconds: duration.Seconds(), Panels: panels, Events: []event{{From: 20, To: 40, Text: "a fault"}}, Caption: []string{"by a test"}}
	folder := t.TempDir()
	if err := r.write(folder); err != nil {
		t.Fatal(err)
	}
	picture := texts(t, filepath.Join(folder, "dashboard-light.svg"))
	for _, want := range []string{"1: 20 to 40 s: a fault", "by a test"} {
		if picture[want] != 1 {
			t.Errorf("%q is there %d times", want, picture[want])
		}
	}
	want := make(map[string]int)
	for _, p := range panels {
		want[p.Title]++
		want[unitName(p.Unit)]++
		for _, name := range p.names() {
			want[name]++
		}
	}
	for name, n := range want {
		if name != "" && picture[name] < n {
			t.Errorf("%q is there %d times, want %d", name, picture[name], n)
		}
	}
	few := texts(t, filepath.Join(folder, "dashboard-few-dark.svg"))
	for title, want := range map[string]bool{fewPanels[0]: true, fewPanels[1]: true, fewPanels[2]: true, "Renewals by result": false, "Keys by state": false} {
		if (few[title] > 0) != want {
			t.Errorf("%q is one of the few: %v, want %v", title, !want, want)
		}
	}
}

// TestPictureOfTheGuide: the picture in the documentation has the panels of the dashboard as they are now.
func TestPictureOfTheGuide(t *testing.T) {
	const file = "../../docs/img/dashboard-light.svg"
	picture := texts(t, file)
	want := make(map[string]int)
	for _, p := range readDashboard(t).Panels {
		if !p.IsRow() {
			want[p.Title]++
			want[unitName(p.FieldConfig.Defaults.Unit)]++
		}
	}
	for name, n := range want {
		if picture[name] < n {
			t.Errorf("%s has %q %d times, want %d: run make dashboard", file, name, picture[name], n)
		}
	}
	if info, err := os.Stat(file); err != nil || info.Size() > 200_000 {
		t.Errorf("%v, %d bytes", err, info.Size())
	}
}

var textOf = regexp.MustCompile(`(?s)<text[^>]*>([^<]*)</text>`)

// texts counts the texts of an SVG.
func texts(t *testing.T, file string) map[string]int {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	all := make(map[string]int)
	for _, m := range textOf.FindAllSubmatch(text, -1) {
		all[string(m[1])]++
	}
	return all
}

// TestTicks: axes have between three and seven labels, none of them a negative zero.
func TestTicks(t *testing.T) {
	for most := 0.001; most < 1e4; most *= 1.07 {
		all := ticks(0, most, func(v float64) string { return inUnit(v, "s") })
		if len(all) < 3 || len(all) > 7 || strings.HasPrefix(all[0].Label, "-") {
			t.Errorf("up to %v: %v", most, all)
		}
	}
}

// TestProxy: while it is silent no byte arrives, on a connection that was open and on a new one; then all do.
func TestProxy(t *testing.T) {
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	go func() {
		for {
			c, err := server.Accept()
			if err != nil {
				return
			}
			go func() { // an echo
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	way, err := newProxy(server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer way.Close()
	dial := func() net.Conn {
		c, err := net.Dial("tcp", way.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	echo := func(c net.Conn, wait time.Duration) error {
		if _, err := c.Write([]byte("x")); err != nil {
			return err
		}
		if err := c.SetReadDeadline(time.Now().Add(wait)); err != nil {
			return err
		}
		_, err := c.Read(make([]byte, 1))
		return err
	}
	open := dial()
	if err := echo(open, time.Minute); err != nil {
		t.Fatal(err)
	}
	over := way.silence()
	fresh := dial()
	for _, c := range []net.Conn{open, fresh} {
		if err := echo(c, 50*time.Millisecond); !os.IsTimeout(err) {
			t.Errorf("while it is silent: %v", err)
		}
	}
	over()
	for _, c := range []net.Conn{open, fresh} {
		if err := echo(c, time.Minute); err != nil {
			t.Errorf("after that: %v", err)
		}
	}
}
