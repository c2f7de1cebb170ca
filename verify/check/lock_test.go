package check

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rowlock/rowlock/verify/history"
)

// Porcupine and the search for two holds that collide come to the same judgement.
func TestLockIsAQuestionOfPairs(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	k := &key{round: &round{Options: Options{Patience: time.Minute}}}
	var good, bad int
	for range 20000 {
		var list []span
		for range 2 + r.IntN(4) {
			begin := time.Duration(r.IntN(30))
			end := begin + time.Duration(1+r.IntN(8))
			until := end
			if r.IntN(3) > 0 {
				until += time.Duration(r.IntN(6))
			}
			a := history.Event{Begin: begin, End: end, Token: int64(1 + r.IntN(5))}
			list = append(list, span{hold: &hold{acquire: a}, until: until, number: len(list) + 1})
		}
		pair := slices.ContainsFunc(list, func(a span) bool {
			return slices.ContainsFunc(list, func(b span) bool { return a.number < b.number && collide(a, b) })
		})
		result := decide(k, list)
		if pair != (result == porcupine.Illegal) {
			t.Fatalf("Porcupine says %s, a pair collides: %v: %+v", result, pair, list)
		}
		if pair {
			bad++
		} else {
			good++
		}
	}
	t.Logf("%d possible, %d not", good, bad)
}
