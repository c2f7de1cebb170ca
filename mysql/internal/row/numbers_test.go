package row

import (
	"fmt"
	"strings"
	"testing"

	"github.com/rowlock/rowlock/driver"
)

// TestNumbers: the numbers of the statements are driver's.
func TestNumbers(t *testing.T) {
	t.Parallel()
	for _, n := range []struct {
		name, text string
		is         uint64
	}{
		{"TokenRange", TokenRange, driver.TokenRange},
		{"leastToken", leastToken, uint64(GrantedFrom)},
		{"maxClient", maxClient, driver.MaxClient},
		{"maxClient", maxClient, 1<<HintBits - 1},
		{"entrySizeText", entrySizeText, entrySize},
		{"entryNext", entryNext, entrySize + 1},
		{"lineFull", lineFull, entrySize * driver.MaxLine},
		{"mostEndText", mostEndText, uint64(mostEnd.Microseconds())},
	} {
		if n.text != fmt.Sprint(n.is) {
			t.Errorf("%s is %s, want %d", n.name, n.text, n.is)
		}
	}
	if shift := fmt.Sprint(">>", HintBits); !strings.Contains(hintLeft, shift) {
		t.Errorf("%s shifts by another number than %s", hintLeft, shift)
	}
}
