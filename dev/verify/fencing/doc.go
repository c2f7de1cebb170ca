// Package fencing tests package fencing of the root module on real databases. It has
// tests only: they would bring database drivers to the users of that package.
package fencing
