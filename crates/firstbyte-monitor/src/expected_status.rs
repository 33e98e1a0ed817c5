//! Stub until merged.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedStatus;
impl ExpectedStatus {
    pub fn accepts(&self, status: u16) -> bool {
        status < 400
    }
}
