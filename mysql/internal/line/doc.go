// Package line keeps the tickets of those who wait in order (driver.Tickets) in a table beside
// those of the keys, for every strategy alike. Each statement is one step for any number of
// tickets, and locks only their own rows. It decides nothing about who has a key: a look before an
// acquire tells which requests are not sent.
package line
