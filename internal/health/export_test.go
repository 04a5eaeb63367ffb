package health

import "time"

// Room judges a disk.
func Room(free, total, freeFiles, files uint64) Finding {
	return room("/data", free, total, freeFiles, files)
}

// SetBehind says since when a catalog is behind.
func SetBehind(d *Documents, since time.Time) { d.behind = since }

// HintOf is what an error is answered with.
func HintOf(probe string, err error) string { return hintOf(probe, err) }

// Lasts judges the end of a certificate.
func Lasts(until, now time.Time) (string, bool) { return lasts(until, now) }
