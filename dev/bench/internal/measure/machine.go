package measure

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/rowlock/rowlock/dev/bench/internal/result"
)

// Machine describes this machine, its load excepted.
func Machine() result.Machine {
	m := result.Machine{
		System: runtime.GOOS + "/" + runtime.GOARCH, Cores: runtime.NumCPU(), Go: runtime.Version(),
		CPU: field("/proc/cpuinfo", "model name"),
	}
	if kb, err := strconv.Atoi(strings.TrimSuffix(field("/proc/meminfo", "MemTotal"), " kB")); err == nil {
		m.MemoryGB = float64(kb) / 1e6
	}
	if text, err := os.ReadFile("/etc/os-release"); err == nil {
		if _, rest, found := strings.Cut(string(text), "PRETTY_NAME=\""); found {
			name, _, _ := strings.Cut(rest, "\"")
			m.System = name + ", " + m.System
		}
	}
	m.FsyncP50, m.FsyncP99 = fsync()
	if d, err := time.ParseDuration(os.Getenv("ROWLOCK_TEST_SYNC")); err == nil && d > 0 {
		m.SlowSync = d.String()
	}
	return m
}

// field reads "name : value" from a file of /proc; empty where there is none.
func field(file, name string) string {
	text, _ := os.ReadFile(file)
	for line := range strings.Lines(string(text)) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// Load is the system's load average, where it tells.
func Load() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	return strings.Join(strings.Fields(string(text))[:3], " ")
}

// LoadNow is that of the last minute; 0 where the system does not tell.
func LoadNow() (load float64) {
	_, _ = fmt.Sscan(Load(), &load)
	return load
}

// fsync is how many milliseconds an append of 512 bytes and a sync takes, where
// the servers keep their data.
func fsync() (p50, p99 float64) {
	dir := os.Getenv("ROWLOCK_TEST_DATA")
	if dir == "" {
		dir = os.TempDir()
	}
	f, err := os.Create(filepath.Join(dir, "rowlock-bench-fsync"))
	if err != nil {
		return 0, 0
	}
	defer os.Remove(f.Name())
	defer f.Close()
	block := make([]byte, 512)
	var spans []float64
	for begin := time.Now(); len(spans) < 200 && time.Since(begin) < time.Second; {
		start := time.Now()
		if _, err := f.Write(block); err != nil {
			return 0, 0
		}
		if err := f.Sync(); err != nil {
			return 0, 0
		}
		spans = append(spans, Millis(time.Since(start)))
	}
	return Quantile(spans, 0.5), Quantile(spans, 0.99)
}
