package check

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/rowlock/rowlock/dev/verify/history"
)

// Porcupine and the search for places come to the same judgement, whatever the modes, and the
// places that were found are those of a possible history.
func TestLockIsAQuestionOfPlaces(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	modes := []history.Event{{}, {Mode: history.Shared}, {Mode: history.Shared}, {Mode: history.Slot}, {Mode: history.Slot, Slot: 1}}
	var good, bad, several int
	rounds := 40_000
	if testing.Short() {
		rounds = 4000
	}
	for round := range rounds {
		var list []span
		for range 2 + r.IntN(5) {
			a := modes[0]
			if round%2 > 0 {
				a = modes[r.IntN(len(modes))]
			}
			a.Begin = time.Duration(r.IntN(30))
			a.End = a.Begin + time.Duration(1+r.IntN(12))
			until := a.End
			if r.IntN(3) > 0 {
				until += time.Duration(r.IntN(8))
			}
			list = append(list, span{hold: &hold{acquire: a}, until: until, number: len(list) + 1})
		}
		moments, wrong := place(list)
		result := porcupine.CheckOperationsTimeout(lockModel, operations(list, nil), time.Minute)
		if (moments == nil) != (result == porcupine.Illegal) {
			t.Fatalf("Porcupine says %s, places: %v: %+v", result, moments, list)
		}
		if moments == nil {
			if bad++; len(wrong) > 2 {
				several++
			}
			list = wrong
		} else {
			good++
		}
		if again := porcupine.CheckOperationsTimeout(lockModel, operations(list, moments), time.Minute); again != result {
			t.Fatalf("Porcupine says %s of %+v, and %s with %v of %+v", result, list, again, moments, wrong)
		}
	}
	t.Logf("%d possible, %d not, %d of these because of more than two holds", good, bad, several)
	if several == 0 {
		t.Error("no history that is impossible because of more than two holds")
	}
}
