package rowlockcli

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// duration is a flag's time: 90, 1.5 (seconds, as flock takes them), 90s, 1h30m, 2d.
type duration time.Duration

// String is what the help shows as the default: 0, which it leaves out, 90s, 1m, 1h30m.
func (d *duration) String() string {
	if *d == 0 {
		return "0"
	}
	text := time.Duration(*d).String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

func (d *duration) Type() string { return "time" }

func (d *duration) Set(text string) error {
	value, err := parseDuration(text)
	if err != nil {
		return err
	}
	*d = duration(value)
	return nil
}

const longest = 366 * 24 * time.Hour

func parseDuration(text string) (time.Duration, error) {
	form := errors.New("use seconds (90), or a number with a unit (500ms, 90s, 10m, 2h, 7d), at most 366d")
	number, unit := text, time.Second
	if n := len(text); n > 1 && text[n-1] == 'd' {
		number, unit = text[:n-1], 24*time.Hour
	}
	if f, err := strconv.ParseFloat(number, 64); err == nil {
		if !(f >= 0 && f <= float64(longest/unit)) {
			return 0, form
		}
		return time.Duration(f * float64(unit)), nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 || d > longest {
		return 0, form
	}
	return d, nil
}

// short is a time for people: 340ms, 2.5s, 27s, 3m20s, 5h10m, 3d4h.
func short(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < 0:
		return "-" + short(-d)
	case d < time.Second:
		return d.Round(time.Millisecond).String()
	case d < 10*time.Second:
		return d.Round(100 * time.Millisecond).String()
	case d < time.Hour:
		return d.Round(time.Second).String()
	case d < day:
		d = d.Round(time.Minute)
		return strconv.Itoa(int(d/time.Hour)) + "h" + strconv.Itoa(int(d%time.Hour/time.Minute)) + "m"
	}
	d = d.Round(time.Hour)
	return strconv.Itoa(int(d/day)) + "d" + strconv.Itoa(int(d%day/time.Hour)) + "h"
}
