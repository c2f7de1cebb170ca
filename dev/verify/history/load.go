package history

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
)

// extension is that of the files of events. Other files in a folder are left alone.
const extension = ".jsonl"

// Load reads the events of all processes of a round, in the order in which they began.
// An event that was written before it was sent and again with its reply is one event.
//
// A process that was killed may have left half a line at the end of its file: what it
// was about to record had not been sent, or stays without a reply. Anything else that
// cannot be read is an error that names file and line.
func Load(folder string) ([]Event, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*"+extension))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("no history in %s", folder)
	}
	var all []Event
	for _, file := range files {
		events, err := LoadFile(file)
		if err != nil {
			return nil, err
		}
		all = append(all, events...)
	}
	sortByBegin(all)
	return all, nil
}

// LoadFile reads one file of events. Empty lines and those that begin with # say
// nothing.
func LoadFile(file string) ([]Event, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	// IDs are the recorder's: one that also records for others (that a process was killed) must
	// not collide with what they recorded themselves, so they are merged by file.
	type name struct {
		client string
		id     int64
	}
	var events []Event
	at := make(map[name]int)
	for n := 1; len(data) > 0; n++ {
		line, rest, whole := bytes.Cut(data, []byte{'\n'})
		data = rest
		if len(bytes.TrimSpace(line)) == 0 || line[0] == '#' {
			continue
		}
		e, err := parse(line)
		if err != nil {
			if !whole {
				break
			}
			return nil, fmt.Errorf("%s:%d: %w", file, n, err)
		}
		i, ok := at[name{e.Client, e.ID}]
		if !ok {
			at[name{e.Client, e.ID}] = len(events)
			events = append(events, e)
			continue
		}
		if old := events[i]; old.Kind != e.Kind || old.Begin != e.Begin || old.End != 0 {
			return nil, fmt.Errorf("%s:%d: a second %s with the ID %d of the %s at %d", file, n, e.Kind, e.ID, old.Kind, old.Begin)
		}
		events[i] = e
	}
	sortByBegin(events)
	return events, nil
}

// parse reads a line. A member that Event does not have is an error: what a checker
// does not know of it cannot judge.
func parse(line []byte) (Event, error) {
	var e Event
	d := json.NewDecoder(bytes.NewReader(line))
	d.DisallowUnknownFields()
	if err := d.Decode(&e); err != nil {
		return e, err
	}
	if d.More() {
		return e, fmt.Errorf("more than one event in a line")
	}
	return e, nil
}

// sortByBegin leaves what began at once in the order of the files: the rows of a
// ledger, which have no times, stay in that of the database.
func sortByBegin(events []Event) {
	slices.SortStableFunc(events, func(a, b Event) int { return cmp.Compare(a.Begin, b.Begin) })
}
