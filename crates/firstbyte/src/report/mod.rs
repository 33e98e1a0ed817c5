//! Views of samples: one file per format.
