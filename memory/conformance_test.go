package memory

import (
	"fmt"
	"testing"
	"time"

	"github.com/rowlock/rowlock/driver"
	"github.com/rowlock/rowlock/locktest"
)

// harness is a lock space of its own. It lives in one process, so the cases with
// processes and servers do not exist.
func harness(testing.TB) locktest.Harness {
	space := New()
	return locktest.Harness{
		Open: func(testing.TB) driver.Store { return program{space, space, space, space, space, space} },
		Dead: func(t testing.TB, prefix string, n int) {
			space.mu.Lock()
			defer space.mu.Unlock()
			ago := time.Now().Add(-48 * time.Hour)
			for i := range n {
				space.rows[fmt.Sprint(prefix, i)] = &row{
					id: driver.HoldID{1}, owner: "dead", token: nextToken(0, ago),
					acquiredAt: ago, expiresAt: ago, releasedAt: ago,
				}
			}
		},
	}
}

// program is a Store without Close, which would close it for every program of the
// lock space.
type program struct {
	driver.Store
	driver.Reaper
	driver.Lister
	driver.Forcer
	driver.Counter
	driver.Clock
}

// The whole suite, a test function for each promise.

func TestP1_Exclusion(t *testing.T)  { t.Parallel(); locktest.P1(t, harness(t)) }
func TestP2_Loss(t *testing.T)       { t.Parallel(); locktest.P2(t, harness(t)) }
func TestP3_Tokens(t *testing.T)     { t.Parallel(); locktest.P3(t, harness(t)) }
func TestP5_Stale(t *testing.T)      { t.Parallel(); locktest.P5(t, harness(t)) }
func TestP6_GiveUp(t *testing.T)     { t.Parallel(); locktest.P6(t, harness(t)) }
func TestP7_LostReply(t *testing.T)  { t.Parallel(); locktest.P7(t, harness(t)) }
func TestP8_Conflicts(t *testing.T)  { t.Parallel(); locktest.P8(t, harness(t)) }
func TestP9_Keys(t *testing.T)       { t.Parallel(); locktest.P9(t, harness(t)) }
func TestP10_Reaper(t *testing.T)    { t.Parallel(); locktest.P10(t, harness(t)) }
func TestP12_Release(t *testing.T)   { t.Parallel(); locktest.P12(t, harness(t)) }
func TestP15_Isolation(t *testing.T) { t.Parallel(); locktest.P15(t, harness(t)) }
func TestHold_Times(t *testing.T)    { t.Parallel(); locktest.Hold(t, harness(t)) }
func TestStore_Seam(t *testing.T)    { t.Parallel(); locktest.Store(t, harness(t)) }

func BenchmarkStore(b *testing.B) { locktest.Bench(b, harness(b)) }
