package prom

import (
	"math"
	"testing"
	"time"
)

// TestParse: answers of both kinds, values that are no numbers, and errors.
func TestParse(t *testing.T) {
	at := time.UnixMilli(1763887000123)
	for _, c := range []struct {
		name, body string
		want       []float64
	}{
		{"now", `{"status":"success","data":{"result":[{"metric":{"a":"b"},"value":[1763887000.123,"0.5"]}]}}`, []float64{0.5}},
		{"range", `{"status":"success","data":{"result":[{"metric":{"a":"b"},"values":[[1763887000.123,"1"],[1763887000.123,"+Inf"]]}]}}`, []float64{1, math.Inf(1)}},
		{"NaN", `{"status":"success","data":{"result":[{"metric":{"a":"b"},"value":[1763887000.123,"NaN"]}]}}`, []float64{math.NaN()}},
	} {
		all, err := parse("x", []byte(c.body))
		if err != nil || len(all) != 1 || all[0].Metric["a"] != "b" || len(all[0].Points) != len(c.want) {
			t.Errorf("%s: %v, %v", c.name, all, err)
			continue
		}
		for i, p := range all[0].Points {
			if !p.At.Equal(at) || p.Value != c.want[i] && !math.IsNaN(c.want[i]) || math.IsNaN(p.Value) != math.IsNaN(c.want[i]) {
				t.Errorf("%s: %v, want %v at %v", c.name, p, c.want[i], at)
			}
		}
	}
	for _, body := range []string{`{"status":"error","error":"bad"}`, `<html>`, `{"status":"success","data":{"result":[{"value":["now","1"]}]}}`} {
		if all, err := parse("x", []byte(body)); err == nil {
			t.Errorf("%s: %v", body, all)
		}
	}
}
