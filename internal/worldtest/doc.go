// Package worldtest is what the tests of whole calls share: a dispatcher with
// function tools on a real server of its own, in virtual time, and the means to
// publish to it, to look at it from outside and to bring a fault about.
//
// A World belongs to one test. Its methods fail that test; none returns an error.
package worldtest
