package prom

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Series is one of the answers to a query.
type Series struct {
	Metric map[string]string
	Points []Point
}

// Point is a value, which may be NaN: nothing was observed.
type Point struct {
	At    time.Time
	Value float64
}

// Query evaluates an expression now: each series has one point.
func (s *Server) Query(ctx context.Context, expr string) ([]Series, error) {
	return s.ask(ctx, "query", url.Values{"query": {expr}})
}

// QueryRange evaluates an expression at from, and after each step until to.
func (s *Server) QueryRange(ctx context.Context, expr string, from, to time.Time, step time.Duration) ([]Series, error) {
	seconds := func(t time.Time) string { return strconv.FormatFloat(float64(t.UnixMilli())/1000, 'f', 3, 64) }
	return s.ask(ctx, "query_range", url.Values{
		"query": {expr}, "start": {seconds(from)}, "end": {seconds(to)}, "step": {strconv.FormatFloat(step.Seconds(), 'f', -1, 64)},
	})
}

// Version is that of the program.
func (s *Server) Version(ctx context.Context) (string, error) {
	body, err := s.read(ctx, "status/buildinfo")
	if err != nil {
		return "", err
	}
	var answer struct{ Data struct{ Version string } }
	if err := json.Unmarshal(body, &answer); err != nil {
		return "", fmt.Errorf("%w: %s", err, body)
	}
	return answer.Data.Version, nil
}

func (s *Server) ask(ctx context.Context, what string, values url.Values) ([]Series, error) {
	body, err := s.read(ctx, what+"?"+values.Encode())
	if err != nil {
		return nil, err
	}
	return parse(values.Get("query"), body)
}

func (s *Server) read(ctx context.Context, what string) ([]byte, error) {
	r, err := get(ctx, "http://"+s.address+"/api/v1/"+what)
	if err != nil {
		return nil, err
	}
	defer r.Body.Close()
	return io.ReadAll(r.Body)
}

// parse reads an answer to expr.
func parse(expr string, body []byte) (all []Series, err error) {
	var answer struct {
		Status, Error string
		Data          struct {
			Result []struct {
				Metric map[string]string
				Value  *sample
				Values []sample
			}
		}
	}
	if err := json.Unmarshal(body, &answer); err != nil {
		return nil, fmt.Errorf("%s: %w: %s", expr, err, body)
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("%s: %s", expr, answer.Error)
	}
	for _, r := range answer.Data.Result {
		if r.Value != nil {
			r.Values = append(r.Values, *r.Value)
		}
		one := Series{Metric: r.Metric}
		for _, v := range r.Values {
			one.Points = append(one.Points, Point(v))
		}
		all = append(all, one)
	}
	return all, nil
}

// sample is a point as Prometheus writes it: [1763887000.123, "0.5"].
type sample Point

func (s *sample) UnmarshalJSON(text []byte) (err error) {
	var (
		at    float64
		value string
	)
	if err := json.Unmarshal(text, &[]any{&at, &value}); err != nil {
		return err
	}
	s.At = time.UnixMilli(int64(math.Round(at * 1000)))
	s.Value, err = strconv.ParseFloat(value, 64)
	return err
}

func get(ctx context.Context, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	return http.DefaultClient.Do(request)
}
