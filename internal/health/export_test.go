package health

import "time"

// Room returns the finding about a disk.
func Room(free, total, freeFiles, files uint64) Finding {
	return diskFinding("/data", free, total, freeFiles, files)
}

// SetBehind sets since when a catalog is behind.
func SetBehind(d *Documents, since time.Time) { d.behind = since }

// HintOf returns the hint for an error.
func HintOf(probe string, err error) string { return hintOf(probe, err) }

// Validity describes the end of a certificate.
func Validity(until, now time.Time) (string, bool) { return validity(until, now) }
