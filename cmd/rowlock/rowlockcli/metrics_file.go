package rowlockcli

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/lockedfile"

	"github.com/rowlock/rowlock/internal/words"
)

// metrics are those of one key, in a file that may have those of other keys too.
type metrics struct {
	path, key string
	values    map[string]float64           // of this key, by the name of the metric
	others    map[string]map[string]string // of other keys: by the name of the metric, then by the label
}

// metricPrefix begins the names of all metrics of a run, also those of other versions of this program.
const metricPrefix = "rowlock_run_"

// openMetrics reads the file, if it is there: the time of the last success and the counter go on. A file of another
// program is an error.
func openMetrics(path, key string) (*metrics, error) {
	m := &metrics{path: path, key: key, values: make(map[string]float64), others: make(map[string]map[string]string)}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return m, nil
	} else if err != nil {
		return nil, err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for n := 1; lines.Scan(); n++ {
		line := lines.Text()
		if line == "" || line[0] == '#' {
			continue
		}
		name, labels, ok := strings.Cut(line, "{")
		end := strings.LastIndex(labels, "} ")
		if !ok || end < 0 || !strings.HasPrefix(name, metricPrefix) {
			return nil, fmt.Errorf("line %d of %s is of another program: name a file of this one's own", n, path)
		}
		label, value := "{"+labels[:end+1], labels[end+2:]
		if label != m.label() {
			if m.others[name] == nil {
				m.others[name] = make(map[string]string)
			}
			m.others[name][label] = value
			continue
		}
		if v, err := strconv.ParseFloat(value, 64); err == nil && metricHelp[name] != "" {
			m.values[name] = v
		}
	}
	return m, lines.Err()
}

func (m *metrics) label() string {
	return `{key="` + strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(words.Text(m.key)) + `"}`
}

// String is the file: the lines of a metric stand together, as its format says.
func (m *metrics) String() string {
	all := make(map[string]map[string]string)
	for name, series := range m.others {
		all[name] = maps.Clone(series)
	}
	for name, value := range m.values {
		if all[name] == nil {
			all[name] = make(map[string]string)
		}
		all[name][m.label()] = strconv.FormatFloat(value, 'f', -1, 64)
	}
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if kind, help, ok := strings.Cut(metricHelp[name], " "); ok { // not of another version
			fmt.Fprintf(&b, "# HELP %[1]s %[2]s\n# TYPE %[1]s %[3]s\n", name, help, kind)
		}
		for _, label := range slices.Sorted(maps.Keys(all[name])) {
			fmt.Fprintf(&b, "%s%s %s\n", name, label, all[name][label])
		}
	}
	return b.String()
}

// write writes the file as a whole: a reader sees the old one or the new one.
func (m *metrics) write() (err error) {
	f, err := os.CreateTemp(filepath.Dir(m.path), ".rowlock-*") // not *.prom: nobody reads it
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.WriteString(m.String())
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), m.path)
}

// metricsLockWait is how long a job waits for another one that writes the same file of metrics.
const metricsLockWait = 2 * time.Second

// changeMetrics changes the metrics of a key in a file. Others that write the same file do so before or after.
func changeMetrics(path, key string, change func(values map[string]float64)) error {
	unlock, err := lockMetrics(path)
	if err != nil {
		return err
	}
	defer unlock()
	m, err := openMetrics(path, key)
	if err != nil {
		return err
	}
	change(m.values)
	return m.write()
}

// lockMetrics keeps others from the file of metrics, by a file beside it that is left there.
func lockMetrics(path string) (unlock func(), err error) {
	beside := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".lock")
	type result struct {
		unlock func()
		err    error
	}
	got, gone := make(chan result), make(chan struct{})
	go func() {
		var r result
		r.unlock, r.err = lockedfile.MutexAt(beside).Lock()
		select {
		case got <- r:
		case <-gone:
			if r.err == nil {
				r.unlock()
			}
		}
	}()
	select {
	case r := <-got:
		_ = os.Chmod(beside, 0o666) // other users' jobs may write the same file
		return r.unlock, r.err
	case <-time.After(metricsLockWait):
		close(gone)
		return nil, fmt.Errorf("another job has had %s for %s: this one's metrics are not written", beside, metricsLockWait)
	}
}
