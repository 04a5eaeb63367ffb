//go:build !race

package jq_test

// slower is how many times as long everything takes.
const slower = 1
