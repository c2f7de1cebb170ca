package conn

import (
	"errors"
	"fmt"
	"maps"

	"github.com/go-sql-driver/mysql"
)

// A statement is one packet, and both ends bound that: the server by
// max_allowed_packet, read when a connection is opened, the driver by
// maxAllowedPacket of the DSN, and a proxy by what it likes. A thousand keys of 255
// bytes are more than a megabyte. So a batch is sent in as many statements as it
// takes: one that is too large is not sent, and its halves are.
// https://dev.mysql.com/doc/refman/9.7/en/packet-too-large.html

const (
	// leastPacket is the smallest max_allowed_packet with which every statement on
	// one key of 255 bytes, with an owner of 255, can be sent.
	leastPacket = 4 << 10

	// packetHead is what a packet has beside the statement, generously.
	packetHead = 64
)

// ErrTooLarge: the statement was not sent, or not taken. Nothing was changed.
var ErrTooLarge = errors.New("the statement is larger than max_allowed_packet")

// fits is an error for a statement that the connection would not carry.
func (c *Conn) fits(text string) error {
	most := c.Packet
	if learned := int(c.db.packet.Load()); learned > 0 && (most == 0 || learned < most) {
		most = learned
	}
	if n := len(text) + packetHead; most > 0 && n > most {
		return fmt.Errorf("%w: %d bytes of at most %d", ErrTooLarge, n, most)
	}
	return nil
}

// refusedSize learns from a statement that was too large although it fit: where the
// driver or something in between allows less than the server says.
func (c *Conn) refusedSize(text string, err error) error {
	switch {
	case errors.Is(err, mysql.ErrPktTooLarge): // nothing was written
	case Number(err) == erPacket:
		c.Broken = true // the server closes it
	default:
		return err
	}
	if half := int64(len(text) / 2); half > leastPacket/2 {
		c.db.packet.Store(max(half, leastPacket))
	}
	if Number(err) == erPacket {
		return err // for another connection
	}
	return fmt.Errorf("%w: %w", ErrTooLarge, err)
}

// InParts asks about n keys in one statement, or in as many as it takes.
func InParts[V any](from, to int, ask func(from, to int) (map[string]V, error)) (map[string]V, error) {
	found, err := ask(from, to)
	if !errors.Is(err, ErrTooLarge) || to-from < 2 {
		return found, err
	}
	half := (from + to) / 2
	if found, err = InParts(from, half, ask); err != nil {
		return nil, err
	}
	more, err := InParts(half, to, ask)
	if err != nil {
		return nil, err
	}
	maps.Copy(found, more)
	return found, nil
}
