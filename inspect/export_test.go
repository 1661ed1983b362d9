package inspect

// Bounds are the upper ends of all buckets but the last.
var Bounds = bounds[:]

// BucketOf is the function that Record uses.
var BucketOf = bucketOf
