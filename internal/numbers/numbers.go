// Package numbers draws the numbers by which a hint names a client.
package numbers

import (
	"math/rand/v2"

	"github.com/rowlock/rowlock/driver"
)

// Client draws the number of a client. Nothing else draws one: some numbers are no client's.
func Client() uint32 { return client(rand.Uint32N) }

// client is Client by draw, which gives a number below n.
func client(draw func(n uint32) uint32) uint32 {
	return driver.MinClient + draw(driver.MaxClient-driver.MinClient+1)
}
