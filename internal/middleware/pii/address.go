package pii

import (
	"net/netip"
	"strings"
)

// maxIP is the longest address in bytes: IPv6 with an IPv4 address in it.
const maxIP = 45

// matchIP finds an IPv4 or IPv6 address at text[i:], without brackets, port, zone and prefix length. A part of a longer row of numbers
// (1.2.3.4.5) is no address, nor is an IPv6 form without digits (std::vector, a::b). A :: behind a bracket is a scope (T<x>::y), or
// follows a redacted value.
func matchIP(text string, i int) (end int, ok, cut bool) {
	stop, colons, dots := i, 0, 0
	for ; stop < min(len(text), i+maxIP+2); stop++ { // two more: what follows an address is looked at
		c := text[stop]
		switch {
		case c == ':':
			colons++
		case c == '.':
			dots++
		case !isHex(c):
			return longestIP(text, i, stop, colons, dots)
		}
	}
	end, ok, _ = longestIP(text, i, stop, colons, dots)
	return end, ok, stop == len(text)
}

func longestIP(text string, i, stop, colons, dots int) (end int, ok, cut bool) {
	if colons < 2 && dots < 3 || isDotBetweenDigits(text, i-1) || text[i] == ':' && isPrecededBy(text, i, isBracket) {
		return 0, false, false
	}
	for end := min(stop, i+maxIP); end > i+1; end-- {
		if isClassAt(text, end, isWord) || isDotBetweenDigits(text, end) {
			continue
		}
		if _, err := netip.ParseAddr(text[i:end]); err == nil && strings.ContainsAny(text[i:end], "0123456789") {
			return end, true, false
		}
	}
	return 0, false, false
}

// isDotBetweenDigits reports whether text[i] is a dot between digits.
func isDotBetweenDigits(text string, i int) bool {
	return i > 0 && i+1 < len(text) && text[i] == '.' && isDigit(text[i-1]) && isDigit(text[i+1])
}

// matchMAC finds six pairs of hex digits at text[i:] with : or - between them, or three groups of four with dots between them, where no word
// goes on after them.
func matchMAC(text string, i int) (end int, ok, cut bool) {
	if end, ok, cut = matchMACPairs(text, i); ok {
		return end, ok, cut
	}
	end, ok, dotsCut := matchMACGroups(text, i)
	return end, ok, cut || dotsCut
}

func matchMACPairs(text string, i int) (end int, ok, cut bool) {
	for n := range 17 {
		switch {
		case i == len(text):
			return 0, false, true
		case n%3 == 2 && text[i] != ':' && text[i] != '-', n%3 != 2 && !isHex(text[i]):
			return 0, false, false
		}
		i++
	}
	return i, !isClassAt(text, i, isWord), i == len(text)
}

// matchMACGroups finds aabb.ccdd.eeff, unless another group stands before or behind it.
func matchMACGroups(text string, i int) (end int, ok, cut bool) {
	if i > 1 && text[i-1] == '.' && isHex(text[i-2]) {
		return 0, false, false
	}
	for n := range 14 {
		switch {
		case i == len(text):
			return 0, false, true
		case n%5 == 4 && text[i] != '.', n%5 != 4 && !isHex(text[i]):
			return 0, false, false
		}
		i++
	}
	if isClassAt(text, i, isWord) || isClassAt(text, i, isDot) && isClassAt(text, i+1, isHex) {
		return 0, false, false
	}
	return i, true, i == len(text) || i+1 == len(text) && text[i] == '.'
}

func isDot(c byte) bool     { return c == '.' }
func isBracket(c byte) bool { return c == ']' || c == '>' }
func isIPStart(c byte) bool { return isHex(c) || c == ':' }
