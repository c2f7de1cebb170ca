package check

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// ReportFolder is where Report puts its files, in the folder of the round.
const ReportFolder = "violations"

// reports is how many violations get files of their own.
const reports = 20

// Report writes what a person needs to understand violations into a folder
// "violations" in that of the round: all.txt has all of them, with the seed from
// meta.json, and each of the first twenty has
//
//	01-loss-version-key.txt    what happened, and the events that show it
//	01-loss-version-key.jsonl  all that was recorded about the key, with the faults
//	01-loss-version-key.html   a picture of it, for a browser
func Report(folder string, violations []Violation, events []history.Event) error {
	meta, err := history.LoadMeta(folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	to := filepath.Join(folder, ReportFolder)
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	r := newRound(events, ForRound(meta))
	var all strings.Builder
	fmt.Fprintf(&all, "%d violations.\n%s\n", len(violations), origin(meta))
	for i, v := range violations {
		fmt.Fprintf(&all, "%s\n", v)
		if i >= reports {
			continue
		}
		name := filepath.Join(to, fmt.Sprintf("%02d-%s-%s-%s", i+1, v.Checker, plain(v.Space), plain(v.Key)))
		if err := r.report(name, v, origin(meta)); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(to, "all.txt"), []byte(all.String()), 0o644)
}

// String is a violation in a line. It begins with BREACH, as locktest.Breach does, where no load of the machine can be the cause.
func (v Violation) String() string {
	text := ""
	if slices.Contains([]string{"P1", "P2", "P3", "P4", "P16", "P17", "P20"}, v.Promise) {
		text = "BREACH "
	}
	return text + fmt.Sprintf("%s: %s, space %s, key %q: %s", v.Promise, v.Checker, v.Space, v.Key, v.Text)
}

// origin says how to make the round again.
func origin(m history.Meta) string {
	text := fmt.Sprintf("Seed %d", m.Seed)
	if m.Command != "" {
		text += ", again by: " + m.Command
	}
	for name, s := range m.Spaces {
		text += fmt.Sprintf("\nSpace %s: %s on %s, TTL %v", name, s.Strategy, s.Server, s.TTL)
	}
	return text + "\n"
}

var notPlain = regexp.MustCompile(`[^A-Za-z0-9_.]+`)

// plain is a name as it can stand in that of a file.
func plain(name string) string { return notPlain.ReplaceAllString(name, "_") }

// report writes the files of one violation.
func (r *round) report(name string, v Violation, origin string) error {
	text := fmt.Sprintf("%s\n\n%s\nThe events:\n", v, origin)
	for _, e := range v.Events {
		text += "  " + r.tell(e) + "\n"
	}
	if err := os.WriteFile(name+".txt", []byte(text), 0o644); err != nil {
		return err
	}
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	for _, e := range r.events {
		if e.Space == v.Space && e.Key == v.Key || slices.Contains(system, e.Kind) {
			if err := encoder.Encode(e); err != nil {
				return err
			}
		}
	}
	if err := os.WriteFile(name+".jsonl", lines.Bytes(), 0o644); err != nil {
		return err
	}
	for _, k := range r.keys {
		if k.space == v.Space && k.name == v.Key {
			return k.picture(name+".html", v)
		}
	}
	return nil
}

// around is how much of a key's history a picture shows before and after the events of
// a violation, in TTLs.
const around = 3

// picture draws the holds, or the calls to the register, around a violation, and
// beside them what else was seen and done.
func (k *key) picture(file string, v Violation) error {
	from, to := time.Duration(math.MaxInt64), time.Duration(0)
	for _, e := range v.Events {
		if !slices.Contains(afterwards, e.Kind) {
			from, to = min(from, e.Begin), max(to, e.Begin, e.End)
		}
	}
	if to == 0 { // nothing that has a time
		from, to = k.Begin, k.lastEvent()
	}
	from, to = from-around*k.on.TTL, to+around*k.on.TTL
	model, list := registerModel, calls(until(k.register, to))
	if v.Checker != "register" {
		var shown []span
		for _, s := range spans(k) {
			if s.acquire.Begin <= to && s.until >= from {
				shown = append(shown, s)
			}
		}
		model, list = lockModel, operations(shown, nil)
	}
	const never = int64(math.MaxInt64)
	for i := range list { // the picture has to end somewhere
		if list[i].Return == never {
			list[i].Return = int64(to)
		}
		list[i].Return = max(list[i].Return, list[i].Call)
	}
	_, info := porcupine.CheckOperationsVerbose(model, list, 5*time.Second) // as far as it gets
	info.AddAnnotations(k.annotations(v, from, to))
	return porcupine.VisualizePath(model, info, file)
}

// annotations are what the model does not have.
func (k *key) annotations(v Violation, from, to time.Duration) (list []porcupine.Annotation) {
	add := func(tag, color string, e history.Event) {
		end := max(e.End, e.Begin)
		if e.Begin > to || end < from {
			return
		}
		list = append(list, porcupine.Annotation{
			Tag: tag, Start: int64(e.Begin), End: int64(end), BackgroundColor: color,
			Description: strings.TrimSpace(fmt.Sprintf("%s %s", e.Kind, e.Result)), Details: k.tell(e) + " " + e.Error,
		})
	}
	for _, e := range v.Events {
		if !slices.Contains(afterwards, e.Kind) {
			add("the violation", "#ffb3b3", e)
		}
	}
	for _, f := range k.faults {
		if k.hitBy(f) {
			add("fault "+f.Key, "#ffe0b3", f)
		}
	}
	for _, e := range k.frozen {
		add("frozen", "#d9d9d9", e)
	}
	for _, e := range k.killed {
		add("killed", "#d9d9d9", e)
	}
	for _, list := range [][]history.Event{k.tries, k.commits, k.tried, k.observed} {
		for _, e := range list {
			add(e.Client+" "+string(e.Kind), "", e)
		}
	}
	for _, h := range k.holds {
		for _, e := range h.uses {
			add(e.Client+" uses", "", e)
		}
	}
	return list
}
