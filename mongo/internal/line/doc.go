// Package line keeps the tickets of those who wait in order (driver.Tickets) in a collection
// beside that of the keys:
//
//	{_id: {k: key, t: the client's ticket ID}, seq: its place, expiresAt}
//
// A client has one ticket of a key at most: its next one takes the place of the last. The place
// is the server's time, so of two that come within a millisecond the IDs decide. It decides
// nothing about who has a key: a look before an acquire tells which requests are not sent.
package line
