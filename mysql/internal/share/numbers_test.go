package share

import (
	"fmt"
	"math"
	"testing"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/mysql/internal/row"
)

// TestNumbers: the numbers of the statements are driver's.
func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, n := range []struct {
		name, text string
		is         uint64
	}{
		{"mostSlotToken", mostSlotToken, driver.MaxToken - driver.TokenRange},
		{"firstReaderText", firstReaderText, firstReader},
		{"readerToken", readerToken, math.MaxUint64},
		{"phaseAnswerText", phaseAnswerText, uint64(phaseAnswer)},
		{"ownAnswer", ownAnswer, uint64(row.GrantedFrom - 1)},
		{"phaseLinedText", phaseLinedText, uint64(phaseLined)},
	} {
		if n.text != fmt.Sprint(n.is) {
			t.Errorf("%s is %s, want %d", n.name, n.text, n.is)
		}
	}
}
