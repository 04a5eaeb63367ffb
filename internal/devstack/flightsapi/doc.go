// Package flightsapi is a small HTTP API with made-up flights: something real to call for the http_request step of a pipeline on a
// machine without a network. It is deterministic and keeps nothing.
//
//	GET  /flights?origin=NYC&dest=LAX   an array of 50 flights; /search is the same
//	GET  /flights?count=100000          flights between many places, at most 200,000; with origin and dest between those
//	GET  /airlines                      who flies: 9, of which one has no flights
//	GET  /bookings                      40 bookings of flights from NYC to LAX, with dates, phone numbers and text to take apart
//	POST /bookings                      a JSON object, answered with an id and status "confirmed" added (201); nothing is kept
//	GET  /                              what this is
//
// A path with .csv or .ndjson at its end, /flights.csv, is the same list in that format; the plain one is a JSON array.
//
// # The rows
//
//	flights   id airline origin dest price departure arrival stops duration_min airline_code
//	airlines  code name country founded phone
//	bookings  id flight_id airline_code passenger seats booked_on paid_on updated_at phone contact coupon
//
// Every pair of three-letter codes has flights, the same ones each time. A flight's airline_code is an airline's code, a booking's
// flight_id a flight's id. Prices are whole dollars. departure, arrival and updated_at are RFC 3339, booked_on is %d/%m/%Y, paid_on is
// "%b %d, %Y" ("Feb 03, 2027"), phone is 212-555-0134, contact is "Ada Lovelace <ada.lovelace@example.com>". coupon is null in most
// bookings; in CSV null is empty.
//
// # Parameters
//
//	limit=10       no more rows (any list)
//	max_price=300  of flights
//	fail=…         an error on request (any list):
//	    500 503 429   that status, the latter two with Retry-After: 1
//	    slow          the answer, after 8 seconds
//	    ragged        the third row lacks its last value: a short line of CSV, an object without the field, and with text for a number
//	    broken        the body ends in the middle of its last row
//	    html          a page for people, with status 200
//
// Anything it does not understand is an error {"error": {"message", "parameter"?}} with status 400, 404, 405, 413 or 415.
package flightsapi
